-- Every bid, in euros.
select auction, bidder, 0.908 * price as price, date_time, date_time as _stime from bid
