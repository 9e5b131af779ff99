-- Why a notification is parked, since when, and what it waits for: it is woken by the step that brings it, not by a scan.

alter table notifications
  add column reason text,
  -- The provider's name of what must become known, or move, here first.
  add column waits_for text,
  add column parked_at timestamptz;
alter table notifications alter column reason set statistics 10, alter column waits_for set statistics 10,
  alter column parked_at set statistics 10;

update notifications n set reason = case when j.last_error ->> 'code' = 'not_at_processor' then 'not_at_processor' else 'not_known_here' end,
  waits_for = case when n.payload #>> '{data,object,object}' = 'payment_intent' then n.object_id
    else coalesce(n.payload #>> '{data,object,payment_intent}', n.object_id) end,
  parked_at = coalesce(n.applied_at, n.received_at), applied_at = null
from jobs j where j.id = n.id and n.state = 'parked';
update notifications set reason = 'not_known_here', parked_at = received_at where state = 'parked' and reason is null;
alter table notifications add constraint notifications_parked_why check (state <> 'parked' or (reason is not null and parked_at is not null));

drop index notifications_parked;
create index notifications_parked on notifications (provider, waits_for) where state = 'parked';
-- For counting. Its condition is another one, so that no look-up of what waits can be planned as a walk through it.
create index notifications_parked_reason on notifications (reason) where parked_at is not null;

-- What was given up before is taken up again: what was answered 200 is never dropped.
update jobs j set state = 'ready', finished_at = null, unknown_since = null, run_at = now(), rung_at = null, max_attempts = j.attempt + 25
from notifications n
where j.id = n.id and j.name = 'notification.apply' and n.state = 'received' and j.state in ('discarded', 'unknown');
