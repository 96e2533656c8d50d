-- Per 10 seconds, bidder and auction: the last bid.
with placed as (
  select *, time_bucket(interval 10 seconds, date_time, timestamp 'epoch') as since from bid
)
select * exclude since, since + interval 10 seconds - interval 1 microsecond as _stime
from placed
qualify row_number() over (partition by bidder, auction, since order by date_time desc) = 1
