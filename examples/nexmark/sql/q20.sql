-- Bids for items of category 10 with their auctions, at most 10 seconds apart.
select
  b.auction, b.bidder, b.price, b.channel, b.date_time,
  a.item_name, a.initial_bid, a.reserve, a.date_time as opened, a.expires, a.seller, a.category,
  greatest(a.date_time, b.date_time) as _stime
from bid b
join auction a on b.auction = a.id
where a.category = 10
  and abs(epoch_us(b.date_time) - epoch_us(a.date_time)) <= 10 * 1000000
