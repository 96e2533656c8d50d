-- Every bid.
select auction, bidder, price, date_time, date_time as _stime from bid
