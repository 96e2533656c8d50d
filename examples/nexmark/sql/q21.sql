-- Bids whose channel has a number, with that number.
with numbered as (
  select
    *,
    coalesce(
      (list_position(['apple', 'google', 'facebook', 'baidu'], lower(channel)) - 1)::varchar,
      nullif(regexp_extract(url, '&channel_id=([^&]*)', 1), '')
    ) as channel_id
  from bid
)
select auction, bidder, price, channel, channel_id, date_time as _stime
from numbered
where channel_id is not null
