-- Every bid with its day and minute.
select
  auction, bidder, price, date_time,
  strftime(date_time, '%Y-%m-%d') as day,
  strftime(date_time, '%H:%M') as minute,
  date_time as _stime
from bid
