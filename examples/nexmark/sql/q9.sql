-- Per 10 seconds and auction: the highest valid bid, the earliest of equal ones.
with valid as (
  select
    a.id as auction, a.item_name, a.seller, a.category, b.bidder, b.price, b.date_time,
    time_bucket(interval 10 seconds, b.date_time, timestamp 'epoch') as since
  from bid b
  join auction a on b.auction = a.id and b.date_time between a.date_time and a.expires
  where abs(epoch_us(b.date_time) - epoch_us(a.date_time)) <= 20 * 1000000
)
select
  * exclude since,
  since + interval 10 seconds as until,
  since + interval 10 seconds - interval 1 microsecond as _stime
from valid
qualify
  row_number() over (partition by auction, since order by price desc, date_time, bidder desc) = 1
