-- Per auction and day: bids by price, and their prices.
select
  auction,
  strftime(date_trunc('day', date_time), '%Y-%m-%d') as day,
  count(*) as total_bids,
  count(*) filter (price < 10000) as low_bids,
  count(*) filter (price >= 10000 and price < 1000000) as middle_bids,
  count(*) filter (price >= 1000000) as high_bids,
  min(price) as min_price,
  max(price) as max_price,
  avg(price) as avg_price,
  sum(price)::bigint as sum_price,
  date_trunc('day', date_time) + interval 1 day - interval 1 microsecond as _stime
from bid
group by auction, date_trunc('day', date_time)
