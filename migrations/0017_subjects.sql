-- Notifications and drifts are of rows of any noun: a column says of which. That the row is there and of the same tenant says the
-- audit; the foreign key locked the payment's row for each of its notifications.

alter table notifications drop constraint notifications_payment, drop constraint notifications_matched;
alter table notifications add column subject text;
alter table notifications alter column subject set statistics 10;
alter table notification_history add column subject text;
update notifications set subject = 'payment' where subject_id is not null;
update notification_history set subject = 'payment' where subject_id is not null;
-- A notification has been matched to a row of one tenant, or to nothing.
alter table notifications add constraint notifications_matched
  check ((tenant_id is null) = (subject_id is null) and (subject is null) = (subject_id is null));

-- Looks are asked for in our own words.
update notifications set payload = jsonb_build_object('reference', object_id,
  'subject', case when payload #>> '{data,object,object}' = 'refund' then 'refund' else 'payment' end)
where kind = 'reconciliation.look' and state in ('received', 'parked');

create or replace view all_notifications with (security_invoker = true) as
  select id, provider, event_id, kind, object_id, state, tenant_id, subject_id, received_at, applied_at, subject from notifications
  union all
  select id, provider, event_id, kind, object_id, state, tenant_id, subject_id, received_at, applied_at, subject from notification_history;

-- Null: what differs belongs to no payment.
alter table drifts drop constraint drifts_subject_check, alter column payment_id drop not null;

do $$
declare
  each text;
begin
  for each in select inhrelid::regclass from pg_inherits where inhparent = 'notification_history'::regclass loop
    execute format('alter table %s alter column subject set statistics 10', each);
  end loop;
end $$;
