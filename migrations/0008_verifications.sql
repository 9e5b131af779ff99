-- Verifications of customers, merchants and recipients.

create table verifications (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  subject_type text not null check (subject_type in ('customer', 'merchant', 'recipient')),
  subject_id uuid not null,
  status text not null default 'pending'
    check (status in ('pending', 'requires_input', 'processing', 'approved', 'rejected')),
  open boolean not null generated always as (status in ('pending', 'requires_input', 'processing')) stored,
  return_url text check (length(return_url) <= 2048),
  provider text not null,
  provider_reference text,
  -- When the last applied answer was requested. A later answer to an earlier request changes nothing.
  reported_as_of timestamptz,
  -- Links to the provider's page that no response has contained yet. Each is sealed and has the id of the job that
  -- requested it as its key.
  links jsonb not null default '{}',
  links_until timestamptz,
  failure jsonb,
  decision text check (decision in ('approved', 'rejected')),
  decision_reason text check (length(decision_reason) <= 1000),
  decided_by text check (decided_by in ('provider', 'manual')),
  -- The API key of a manual decision.
  decided_by_key_id uuid,
  decided_at timestamptz,
  -- When the cancellation of the session was requested, and its reason. A cancellation with a reason rejects the
  -- verification; a cancellation without a reason follows a manual decision.
  cancel_requested_at timestamptz,
  cancellation_reason text check (cancellation_reason in ('abandoned', 'subject_gone')),
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint verifications_created_at unique (tenant_id, created_at),
  constraint verifications_idempotency unique (tenant_id, idempotency_key),
  constraint verifications_provider_reference unique (provider, provider_reference),
  constraint verifications_decision check ((decision is null) = (decided_by is null)
    and (decision is null) = (decided_at is null)
    and (decision is null or decision = status)),
  -- A verification that the provider did not accept is rejected without a decision.
  constraint verifications_ended check (status not in ('approved', 'rejected') or decision is not null
    or (status = 'rejected' and failure is not null)),
  constraint verifications_by_hand check (
    decided_by is not distinct from 'manual' or (decided_by_key_id is null and decision_reason is null)),
  constraint verifications_links check (links = '{}' or (status = 'requires_input' and links_until is not null))
) with (fillfactor = 70);
create unique index verifications_one_open on verifications (tenant_id, subject_type, subject_id) where open;
create index verifications_open on verifications (tenant_id, created_at) where open;
-- Few verifications are rejected; the index serves their list.
create index verifications_rejected on verifications (tenant_id, created_at) where status = 'rejected';
create index verifications_failed on verifications (tenant_id, updated_at)
  where status = 'requires_input' and failure is not null;
create index verifications_subject on verifications (tenant_id, subject_id, created_at);
create index verifications_waiting on verifications (updated_at)
  where status = 'requires_input' and cancel_requested_at is null;
create index verifications_links on verifications (links_until) where links_until is not null;

-- A trigger with the owner's rights updates `kyc_status` of the customer, merchant or recipient: no process can set
-- it to approved without a verification that records the decision. A process that begins a verification locks the row
-- of the customer, merchant or recipient; a process that changes a verification has locked the verification.
create function follow_verification() returns trigger language plpgsql security definer as $$
begin
  if tg_relid <> 'verifications'::regclass then
    raise exception 'follow_verification() may only be a trigger of verifications' using errcode = 'insufficient_privilege';
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
create trigger verifications_begin after insert on verifications for each row execute function follow_verification();
create trigger verifications_follow after update of status on verifications for each row
  when (old.status is distinct from new.status) execute function follow_verification();
