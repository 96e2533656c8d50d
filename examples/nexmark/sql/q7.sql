-- Per 10 seconds: the bids with the highest price.
with placed as (
  select *, time_bucket(interval 10 seconds, date_time, timestamp 'epoch') as since from bid
)
select
  auction, bidder, price, date_time,
  since + interval 10 seconds as until,
  since + interval 10 seconds - interval 1 microsecond as _stime
from placed
qualify price = max(price) over (partition by since)
