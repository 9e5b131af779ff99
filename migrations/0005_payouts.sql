-- Recipients, and payouts to them.

-- Recipients are archived and never deleted, because payouts name them.
create table recipients (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  name text not null check (length(name) between 1 and 256),
  email text check (length(email) <= 320),
  type text not null check (type in ('bank_account', 'card', 'account')),
  currency text not null check (currency ~ '^[a-z]{3}$'),
  country text not null check (country ~ '^[A-Z]{2}$'),
  -- A token of the processor, never an account or card number. The API rejects those; this constraint is the
  -- last line of defense.
  destination text not null,
  -- As in `customers`.
  kyc_status text not null default 'none',
  kyc_id uuid,
  archived_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint recipients_created_at unique (tenant_id, created_at),
  constraint recipients_idempotency unique (tenant_id, idempotency_key),
  constraint recipients_destination check (length(destination) <= 255 and destination ~ case type
    when 'bank_account' then '^ba_[0-9_]*[A-Za-z][A-Za-z0-9_]*$'
    when 'card' then '^card_[0-9_]*[A-Za-z][A-Za-z0-9_]*$'
    else '^acct_[0-9_]*[A-Za-z][A-Za-z0-9_]*$' end),
  constraint recipients_kyc_status
    check (kyc_status in ('none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'))
);
create index recipients_email on recipients (tenant_id, email, created_at) where email is not null;
-- Few recipients are archived; the index serves their list.
create index recipients_archived on recipients (tenant_id, created_at) where archived_at is not null;
create index recipients_verified on recipients (tenant_id, id) where kyc_status <> 'none';

-- While a payout is open, its amount is reserved on the tenant's account.
create table payouts (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  status text not null default 'pending' check (status in ('pending', 'processing', 'paid', 'failed', 'canceled')),
  open boolean not null generated always as (status in ('pending', 'processing')) stored,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null check (currency ~ '^[a-z]{3}$'),
  recipient_id uuid not null,
  description text check (length(description) <= 1000),
  processor text not null,
  processor_reference text,
  -- The furthest state that the processor has reported. It can differ from `status`: the processor may pay a payout
  -- that was failed manually.
  processor_status text check (processor_status in ('processing', 'paid', 'failed', 'canceled')),
  -- When the attempt began that reported the last arrival date, or when the date was received. A later answer
  -- of an earlier attempt changes nothing.
  reported_as_of timestamptz,
  -- The amounts posted: paid, and returned.
  paid_minor bigint not null default 0,
  returned_minor bigint not null default 0,
  out_minor bigint not null generated always as (paid_minor - returned_minor) stored,
  -- When a call began that may have created the payout at the processor. Null: the processor certainly does not have
  -- the payout.
  call_started_at timestamptz,
  -- When a cancellation was requested. It is in progress, or begins once the processor has the payout.
  cancel_requested_at timestamptz,
  -- When a manual failure was requested. It takes effect once the processor can no longer pay the payout. Until then
  -- the payout stays open and its amount stays reserved.
  fail_requested_at timestamptz,
  arrival_date text check (arrival_date ~ '^\d{4}-\d{2}-\d{2}$'),
  failure jsonb,
  processing_at timestamptz,
  paid_at timestamptz,
  failed_at timestamptz,
  canceled_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint payouts_created_at unique (tenant_id, created_at),
  constraint payouts_idempotency unique (tenant_id, idempotency_key),
  constraint payouts_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, recipient_id) references recipients (tenant_id, id),
  constraint payouts_posted check (0 <= returned_minor and returned_minor <= paid_minor
    and paid_minor in (0, amount_minor)),
  constraint payouts_paid_is_posted check (status <> 'paid' or paid_minor = amount_minor),
  constraint payouts_open_is_not_posted check (status not in ('pending', 'processing') or paid_minor = 0),
  constraint payouts_failure check
    ((failure is not null)
      = (status = 'failed' or (status in ('pending', 'processing') and fail_requested_at is not null)))
) with (fillfactor = 70);
create index payouts_recipient on payouts (tenant_id, recipient_id, created_at);
-- Includes payouts that are final here but not at the processor.
create index payouts_open on payouts (tenant_id, created_at) where open or processor_status = 'processing';
