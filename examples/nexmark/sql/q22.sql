-- Every bid with the folders of its address.
select
  auction, bidder, price, channel,
  string_split(url, '/')[4] as dir1,
  string_split(url, '/')[5] as dir2,
  string_split(url, '/')[6] as dir3,
  date_time as _stime
from bid
