-- Customers, merchants (on whose behalf payments are accepted), payments and refunds.

create table customers (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  name text check (length(name) <= 256),
  email text check (length(email) <= 320),
  phone text check (length(phone) <= 32),
  external_id text check (length(external_id) <= 255),
  -- The status of the latest verification, and its id. A foreign key would lock two more rows for each verification.
  kyc_status text not null default 'none',
  kyc_id uuid,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  primary key (tenant_id, id),
  constraint customers_created_at unique (tenant_id, created_at),
  constraint customers_idempotency unique (tenant_id, idempotency_key),
  constraint customers_kyc_status
    check (kyc_status in ('none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'))
);
create index customers_email on customers (tenant_id, email, created_at) where email is not null;
create index customers_external_id on customers (tenant_id, external_id, created_at) where external_id is not null;
-- For the audit of `kyc_status`.
create index customers_verified on customers (tenant_id, id) where kyc_status <> 'none';

-- Merchants are archived and never deleted, because payments name them.
create table merchants (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  legal_name text not null check (length(legal_name) between 1 and 256),
  display_name text not null check (length(display_name) between 1 and 256),
  country text not null check (country ~ '^[A-Z]{2}$'),
  support_email text not null check (length(support_email) between 1 and 320),
  url text check (length(url) <= 2048),
  -- As in `customers`.
  kyc_status text not null default 'none',
  kyc_id uuid,
  archived_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint merchants_created_at unique (tenant_id, created_at),
  constraint merchants_idempotency unique (tenant_id, idempotency_key),
  constraint merchants_kyc_status
    check (kyc_status in ('none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'))
);
create index merchants_archived on merchants (tenant_id, created_at) where archived_at is not null;
create index merchants_verified on merchants (tenant_id, id) where kyc_status <> 'none';

create table payments (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  status text not null default 'pending' check (status in
    ('pending', 'requires_action', 'authorized', 'capturing', 'captured', 'canceling', 'canceled', 'failed')),
  open boolean not null generated always as
    (status in ('pending', 'requires_action', 'authorized', 'capturing', 'canceling')) stored,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  method text not null check (method in ('card')),
  customer_id uuid,
  merchant_id uuid,
  description text check (length(description) <= 1000),
  return_url text,
  amount_capturable_minor bigint not null default 0,
  amount_captured_minor bigint not null default 0,
  amount_refunded_minor bigint not null default 0,
  amount_refund_reserved_minor bigint not null default 0,
  processor text not null,
  processor_reference text,
  client_secret text,
  failure jsonb,
  -- When the attempt began that reported the last decline, or when the decline was received. A later answer of
  -- an earlier attempt changes nothing.
  reported_as_of timestamptz,
  cancellation_reason text,
  cancel_requested_at timestamptz,
  capture_before timestamptz,
  capture_expiry_warned_at timestamptz,
  authorized_at timestamptz,
  captured_at timestamptz,
  canceled_at timestamptz,
  -- The latest dispute as responses present it, written by the statement that writes the dispute. A copy, because few
  -- payments have a dispute: without the copy, each read of a payment would search for one.
  dispute jsonb,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint payments_created_at unique (tenant_id, created_at),
  constraint payments_idempotency unique (tenant_id, idempotency_key),
  constraint payments_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, customer_id) references customers (tenant_id, id),
  constraint payments_merchant foreign key (tenant_id, merchant_id) references merchants (tenant_id, id),
  constraint payments_captured_within_authorized check (amount_captured_minor between 0 and amount_minor),
  constraint payments_refunded_within_captured check
    (amount_refunded_minor >= 0 and amount_refunded_minor <= amount_refund_reserved_minor
      and amount_refund_reserved_minor <= amount_captured_minor),
  constraint payments_capturable_while_held check
    (amount_capturable_minor = 0 or
      (status in ('authorized', 'capturing', 'canceling') and amount_capturable_minor <= amount_minor)),
  constraint payments_captured_has_amount check ((status = 'captured') = (amount_captured_minor > 0))
) with (fillfactor = 60);
create index payments_customer on payments (tenant_id, customer_id, created_at) where customer_id is not null;
create index payments_merchant on payments (tenant_id, merchant_id, created_at) where merchant_id is not null;
-- `open` changes once in the life of a payment, so the steps in between write no index.
create index payments_open on payments (tenant_id, created_at) where open;
create index payments_capture_before on payments (capture_before) where open and capture_before is not null;
create index payments_unwarned on payments (capture_before)
  where open and capture_before is not null and capture_expiry_warned_at is null;
-- A payment has a client secret only while it waits for its buyer.
create index payments_awaiting_buyer on payments (created_at) where open and client_secret is not null;

create table refunds (
  tenant_id uuid not null,
  id uuid not null,
  payment_id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  -- Created in the processor's own dashboard and imported.
  imported boolean not null default false,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null,
  reason text,
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'failed')),
  processor text not null,
  processor_reference text,
  -- The furthest state that the processor has reported. It can differ from `status`: the processor may have made a
  -- refund that an operator resolved as failed.
  processor_status text check (processor_status in ('pending', 'succeeded', 'failed')),
  -- The amount posted and not returned.
  out_minor bigint not null default 0,
  failure jsonb,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  check (imported or idempotency_key is not null),
  constraint refunds_created_at unique (tenant_id, created_at),
  constraint refunds_idempotency unique (tenant_id, idempotency_key),
  constraint refunds_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, payment_id) references payments (tenant_id, id),
  constraint refunds_out check (out_minor in (0, amount_minor)),
  constraint refunds_succeeded_is_out check (status <> 'succeeded' or out_minor = amount_minor),
  constraint refunds_pending_is_not_out check (status <> 'pending' or out_minor = 0)
) with (fillfactor = 70);
create index refunds_payment on refunds (tenant_id, payment_id, created_at);
-- For reconciliation.
create index refunds_pending on refunds (tenant_id, created_at) where status = 'pending';
