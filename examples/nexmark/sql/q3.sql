-- Persons of three states and their auctions of category 10, at most a minute apart.
select p.name, p.city, p.state, a.id as auction, greatest(a.date_time, p.date_time) as _stime
from auction a
join person p on a.seller = p.id
where a.category = 10
  and p.state in ('OR', 'ID', 'CA')
  and abs(epoch_us(a.date_time) - epoch_us(p.date_time)) <= 60 * 1000000
