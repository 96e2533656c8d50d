-- Per day: bids, bidders and auctions, by price.
select
  strftime(date_trunc('day', date_time), '%Y-%m-%d') as day,
  count(*) as total_bids,
  count(*) filter (price < 10000) as low_bids,
  count(*) filter (price >= 10000 and price < 1000000) as middle_bids,
  count(*) filter (price >= 1000000) as high_bids,
  count(distinct bidder) as total_bidders,
  count(distinct bidder) filter (price < 10000) as low_bidders,
  count(distinct bidder) filter (price >= 10000 and price < 1000000) as middle_bidders,
  count(distinct bidder) filter (price >= 1000000) as high_bidders,
  count(distinct auction) as total_auctions,
  count(distinct auction) filter (price < 10000) as low_auctions,
  count(distinct auction) filter (price >= 10000 and price < 1000000) as middle_auctions,
  count(distinct auction) filter (price >= 1000000) as high_auctions,
  date_trunc('day', date_time) + interval 1 day - interval 1 microsecond as _stime
from bid
group by date_trunc('day', date_time)
