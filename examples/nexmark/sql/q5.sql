-- Per window of 10 seconds, one every 2: the auctions with the most bids.
-- A bid at t lies in the windows that begin 0, 2, 4, 6 and 8 seconds before the even second of t.
with placed as (
  select
    auction,
    time_bucket(interval 2 seconds, date_time, timestamp 'epoch')
      - unnest(range(0, 10, 2)) * interval 1 second as since
  from bid
),
counts as (
  select auction, since, count(*) as bids from placed group by all
)
select
  auction, bids,
  since + interval 10 seconds as until,
  since + interval 10 seconds - interval 1 microsecond as _stime
from counts
qualify bids = max(bids) over (partition by since)
