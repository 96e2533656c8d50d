-- Bids in a range of prices, with the time of day and how often their address has the letter c.
select
  auction, bidder, 0.908 * price as price,
  case
    when hour(date_time) in (7, 19) then 'other'
    when hour(date_time) > 7 and hour(date_time) < 19 then 'day'
    else 'night'
  end as time_of_day,
  date_time,
  len(regexp_extract_all(url, 'c')) as cs,
  date_time as _stime
from bid
where 0.908 * price > 1000000 and 0.908 * price < 50000000
