-- Per 10 seconds: the persons who registered and opened an auction in them.
with registered as (
  select id, name, time_bucket(interval 10 seconds, date_time, timestamp 'epoch') as since
  from person
)
select id, name, since, since + interval 10 seconds - interval 1 microsecond as _stime
from registered r
where exists (
  from auction a
  where a.seller = r.id
    and a.date_time >= r.since and a.date_time < r.since + interval 10 seconds
)
