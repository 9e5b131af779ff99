-- A notification that brings no news is over as it is stored, without a job. One that something under way will probably make known
-- waits, and is compared with our row once more when it is due.

alter table notifications drop constraint notifications_state_check,
  add constraint notifications_state_check check (state in ('received', 'waiting', 'applied', 'parked', 'ignored')),
  -- What it says of its object, while it waits.
  add column said jsonb,
  add column due_at timestamptz,
  add constraint notifications_waiting_until check ((state = 'waiting') = (due_at is not null) and (state = 'waiting') = (said is not null));
alter table notifications alter column said set statistics 10, alter column due_at set statistics 10;
alter table notification_history add column said jsonb, add column due_at timestamptz;
create index notifications_waiting on notifications (due_at) where state = 'waiting';
-- Whether another one of the same object has a job.
create index notifications_received on notifications (provider, object_id) where state = 'received';

-- Moves notifications that were over without a job more than an hour ago, in the order in which they came, from a position on. Those with
-- a job go with it. At most `most` are looked at; answers how many were, how many went, and the position reached.
create function move_notifications(
  after timestamptz, after_id uuid, most integer, out looked_at integer, out moved integer, out reached timestamptz, out reached_id uuid
) language sql as $$
  with picked as materialized (
    select n.id, n.received_at, n.state in ('applied', 'ignored') and n.applied_at < now() - interval '1 hour'
      and not exists (select from jobs j where j.id = n.id offset 0) as goes
    from notifications n
    -- What has waited was over a little later than it came: the position must not pass it before.
    where (n.received_at, n.id) > (after, after_id) and n.received_at < now() - interval '62 minutes'
    order by n.received_at, n.id limit most
    for update of n skip locked
  ), notification as (
    delete from notifications n using picked p where p.goes and n.id = p.id returning n.applied_at, n.*
  ),
  kept as (insert into notification_history select * from notification)
  select count(*)::integer, (count(*) filter (where goes))::integer,
    (array_agg(received_at order by received_at desc, id desc))[1], (array_agg(id order by received_at desc, id desc))[1]
  from picked
$$;

do $$
declare
  each text;
begin
  execute format('alter function move_notifications(timestamptz, uuid, integer) security definer set search_path = %I, pg_temp', current_schema());
  revoke all on function move_notifications(timestamptz, uuid, integer) from public;
  -- A plan that was made while the tables were empty would scan them for ever.
  alter function move_notifications(timestamptz, uuid, integer) set plan_cache_mode = 'force_custom_plan';
  for each in select inhrelid::regclass from pg_inherits where inhparent = 'notification_history'::regclass loop
    execute format('alter table %s alter column said set statistics 10, alter column due_at set statistics 10', each);
  end loop;
end $$;
