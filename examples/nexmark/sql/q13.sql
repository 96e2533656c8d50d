-- Every bid with the value of its auction in the fixed table of side_input.py.
select
  auction, bidder, price, date_time, 'value-' || (auction % 10000) as value, date_time as _stime
from bid
