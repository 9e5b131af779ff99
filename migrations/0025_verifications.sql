-- Verifications: whether a customer, merchant or recipient is who they say they are.

create table verifications (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  subject_type text not null check (subject_type in ('customer', 'merchant', 'recipient')),
  subject_id uuid not null,
  status text not null default 'pending' check (status in ('pending', 'requires_input', 'processing', 'approved', 'rejected')),
  open boolean not null generated always as (status in ('pending', 'requires_input', 'processing')) stored,
  return_url text check (length(return_url) <= 2048),
  provider text not null,
  provider_reference text,
  -- When the provider was asked for what was last applied: an older answer that comes later changes nothing.
  told_as_of timestamptz,
  -- Links to the provider's page that nobody has been shown yet, sealed, by the job that brought them.
  links jsonb not null default '{}',
  links_until timestamptz,
  failure jsonb,
  decision text check (decision in ('approved', 'rejected')),
  decision_reason text check (length(decision_reason) <= 1000),
  decided_by text check (decided_by in ('provider', 'manual')),
  -- The API key, where it was decided by hand.
  decided_by_key_id uuid,
  decided_at timestamptz,
  -- The provider was asked to cancel the session: because it was decided by hand, or for this reason, which rejects it.
  cancel_requested_at timestamptz,
  cancellation_reason text check (cancellation_reason in ('abandoned', 'subject_gone')),
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint verifications_created_at unique (tenant_id, created_at),
  constraint verifications_idempotency unique (tenant_id, idempotency_key),
  constraint verifications_provider_reference unique (provider, provider_reference),
  constraint verifications_decision check ((decision is null) = (decided_by is null) and (decision is null) = (decided_at is null)
    and (decision is null or decision = status)),
  -- One that the provider did not take is rejected without a decision.
  constraint verifications_ended check (status not in ('approved', 'rejected') or decision is not null
    or (status = 'rejected' and failure is not null)),
  constraint verifications_by_hand check (decided_by is not distinct from 'manual' or (decided_by_key_id is null and decision_reason is null)),
  constraint verifications_links check (links = '{}' or (status = 'requires_input' and links_until is not null))
) with (fillfactor = 70);
create unique index verifications_one_open on verifications (tenant_id, subject_type, subject_id) where open;
create index verifications_open on verifications (tenant_id, created_at) where open;
-- Few among all, and whom somebody looks at.
create index verifications_rejected on verifications (tenant_id, created_at) where status = 'rejected';
create index verifications_subject on verifications (tenant_id, subject_id, created_at);
create index verifications_waiting on verifications (updated_at) where status = 'requires_input' and cancel_requested_at is null;
create index verifications_links on verifications (links_until) where links_until is not null;

-- The latest verification, whose status `kyc_status` is. There is no foreign key: each verification would lock two rows once more.
alter table customers add column kyc_id uuid;
alter table merchants add column kyc_id uuid;
alter table recipients add column kyc_id uuid;
-- Whoever shows a status, for the audit.
create index customers_verified on customers (tenant_id, id) where kyc_status <> 'none';
create index merchants_verified on merchants (tenant_id, id) where kyc_status <> 'none';
create index recipients_verified on recipients (tenant_id, id) where kyc_status <> 'none';

-- `kyc_status` follows here, with the rights of the owner: no process can say that somebody is approved without a verification that says
-- who decided that. The row of the subject is locked by whoever begins a verification; who changes one has locked that.
create function follow_verification() returns trigger language plpgsql as $$
begin
  if tg_relid <> 'verifications'::regclass then
    raise exception 'follow_verification() serves verifications alone' using errcode = 'insufficient_privilege';
  end if;
  if new.subject_type = 'customer' then
    update customers s set kyc_status = new.status, kyc_id = new.id, updated_at = clock_timestamp()
    where s.tenant_id = new.tenant_id and s.id = new.subject_id and (tg_op = 'INSERT' or s.kyc_id = new.id);
  elsif new.subject_type = 'merchant' then
    update merchants s set kyc_status = new.status, kyc_id = new.id, updated_at = clock_timestamp()
    where s.tenant_id = new.tenant_id and s.id = new.subject_id and (tg_op = 'INSERT' or s.kyc_id = new.id);
  else
    update recipients s set kyc_status = new.status, kyc_id = new.id, updated_at = clock_timestamp()
    where s.tenant_id = new.tenant_id and s.id = new.subject_id and (tg_op = 'INSERT' or s.kyc_id = new.id);
  end if;
  return null;
end $$;
do $$
begin
  execute format('alter function follow_verification() security definer set search_path = %I, pg_temp', current_schema());
end $$;
revoke all on function follow_verification() from public;
create trigger verifications_begin after insert on verifications for each row execute function follow_verification();
create trigger verifications_follow after update of status on verifications for each row
  when (old.status is distinct from new.status) execute function follow_verification();

do $$
declare
  each record;
begin
  for each in
    select attname from pg_attribute where attrelid = 'verifications'::regclass and attnum > 0 and not attisdropped
  loop
    execute format('alter table verifications alter column %I set statistics 10', each.attname);
  end loop;
  alter table customers alter column kyc_id set statistics 10;
  alter table merchants alter column kyc_id set statistics 10;
  alter table recipients alter column kyc_id set statistics 10;
end $$;

-- With a deleted customer goes what their verifications say of them, when all of the customer's own events are erased. What waits for a
-- call is erased again at its turn, because more may have been told by then.
create or replace function erase_next_events(most integer) returns integer language sql as $$
  with erasure as materialized (
    select * from erasures where turn_at <= clock_timestamp() order by turn_at limit 1 for update skip locked
  ), step as materialized (
    select e.* from erasure cross join lateral (
      select e.tenant_id, e.id, e.created_at from events e
      where e.tenant_id = erasure.tenant_id and e.subject_id = erasure.customer_id and e.type like 'customer.%'
        and (e.created_at, e.id) > (erasure.after_at, erasure.after_id)
      order by e.created_at, e.id limit most
    ) e
  ), erased as (
    update events e set data = e.data - array['name', 'email', 'phone', 'metadata'] from step
    where e.tenant_id = step.tenant_id and e.id = step.id and e.created_at = step.created_at and e.type <> 'customer.deleted'
  ), reached as (
    select created_at, id from step order by created_at desc, id desc limit 1
  ), kept as (
    update erasures r set turn_at = clock_timestamp(), after_at = reached.created_at, after_id = reached.id from erasure, reached
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) = most
  ), waits as (
    -- A call that is not over needs its request as it was sent; nothing else waits for it.
    update erasures r set turn_at = clock_timestamp() + interval '10 seconds' from erasure
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
      and exists (
        select from verifications v join jobs j on j.tenant_id = v.tenant_id and j.subject_id = v.id
        where v.tenant_id = r.tenant_id and v.subject_id = r.customer_id and v.subject_type = 'customer'
          and j.finished_at is null)
    returning r.tenant_id
  ), done as (
    delete from erasures r using erasure
    where r.tenant_id = erasure.tenant_id and r.customer_id = erasure.customer_id and (select count(*) from step) < most
      and not exists (select from waits)
  ), verified as materialized (
    select v.tenant_id, v.id from erasure join verifications v
      on v.tenant_id = erasure.tenant_id and v.subject_id = erasure.customer_id and v.subject_type = 'customer'
    where (select count(*) from step) < most
  ), forgotten as (
    update verifications v set metadata = '{}', return_url = null, decision_reason = null, updated_at = clock_timestamp() from verified
    where v.tenant_id = verified.tenant_id and v.id = verified.id
      and (v.metadata, v.return_url, v.decision_reason) is distinct from ('{}'::jsonb, null::text, null::text)
  ), told as (
    update events e set data = e.data - array['metadata', 'return_url', 'decision_reason'] from verified
    where e.tenant_id = verified.tenant_id and e.subject_id = verified.id and e.type like 'kyc.%'
      and e.data ?| array['metadata', 'return_url', 'decision_reason']
  ), asked as (
    update jobs j set request = j.request || '{"return_url": null}' from verified
    where j.tenant_id = verified.tenant_id and j.subject_id = verified.id and j.finished_at is not null
      and j.request ->> 'return_url' is not null
  ), asked_before as (
    update job_history j set request = j.request || '{"return_url": null}' from verified
    where j.tenant_id = verified.tenant_id and j.subject_id = verified.id and j.request ->> 'return_url' is not null
  )
  select (select count(*)::integer from step) from erasure
$$;
do $$ begin
  execute format('alter function erase_next_events(integer) security definer set search_path = %I, pg_temp', current_schema());
end $$;
alter function erase_next_events(integer) set plan_cache_mode = 'force_custom_plan';
