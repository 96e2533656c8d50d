-- Per 10 seconds and category: the mean over auctions of their highest valid bid.
with highest as (
  select
    a.id, a.category,
    time_bucket(interval 10 seconds, b.date_time, timestamp 'epoch') as since,
    max(b.price) as price
  from bid b
  join auction a on b.auction = a.id and b.date_time between a.date_time and a.expires
  where abs(epoch_us(b.date_time) - epoch_us(a.date_time)) <= 20 * 1000000
  group by all
)
select
  category, avg(price) as price,
  since + interval 10 seconds as until,
  since + interval 10 seconds - interval 1 microsecond as _stime
from highest
group by category, since
