-- The bids for every 123rd auction.
select auction, price, date_time as _stime from bid where auction % 123 = 0
