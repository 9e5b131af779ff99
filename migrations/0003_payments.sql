-- Customers, payments and refunds, the ledger, and the events of all of them.

create table customers (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  name text check (length(name) <= 256),
  email text check (length(email) <= 320),
  phone text check (length(phone) <= 32),
  external_id text check (length(external_id) <= 255),
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  deleted_at timestamptz,
  primary key (tenant_id, id),
  constraint customers_created_at unique (tenant_id, created_at),
  constraint customers_idempotency unique (tenant_id, idempotency_key)
);
create index customers_email on customers (tenant_id, email, created_at) where email is not null;
create index customers_external_id on customers (tenant_id, external_id, created_at) where external_id is not null;

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
  cancellation_reason text,
  cancel_requested_at timestamptz,
  capture_before timestamptz,
  capture_expiry_warned_at timestamptz,
  authorized_at timestamptz,
  captured_at timestamptz,
  canceled_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint payments_created_at unique (tenant_id, created_at),
  constraint payments_idempotency unique (tenant_id, idempotency_key),
  constraint payments_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, customer_id) references customers (tenant_id, id),
  constraint payments_captured_within_authorized check (amount_captured_minor between 0 and amount_minor),
  constraint payments_refunded_within_captured check
    (amount_refunded_minor >= 0 and amount_refunded_minor <= amount_refund_reserved_minor
      and amount_refund_reserved_minor <= amount_captured_minor),
  constraint payments_capturable_while_held check
    (amount_capturable_minor = 0 or (status in ('authorized', 'capturing', 'canceling') and amount_capturable_minor <= amount_minor)),
  constraint payments_captured_has_amount check ((status = 'captured') = (amount_captured_minor > 0))
) with (fillfactor = 60);
create index payments_customer on payments (tenant_id, customer_id, created_at) where customer_id is not null;
-- `open` changes once in a payment's life, so the steps between write no index.
create index payments_open on payments (tenant_id, created_at) where open;
create index payments_capture_before on payments (capture_before) where open and capture_before is not null;

create table refunds (
  tenant_id uuid not null,
  id uuid not null,
  payment_id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  -- Made in the processor's own dashboard and imported.
  imported boolean not null default false,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null,
  reason text,
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'failed')),
  processor text not null,
  processor_reference text,
  failure jsonb,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  check (imported or idempotency_key is not null),
  constraint refunds_created_at unique (tenant_id, created_at),
  constraint refunds_idempotency unique (tenant_id, idempotency_key),
  constraint refunds_processor_reference unique (processor, processor_reference),
  foreign key (tenant_id, payment_id) references payments (tenant_id, id)
) with (fillfactor = 70);
create index refunds_payment on refunds (tenant_id, payment_id, created_at);

create table ledger_accounts (
  tenant_id uuid not null,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  name text not null check (name in ('available', 'processor_clearing', 'fees')),
  balance_minor bigint not null default 0,
  reserved_minor bigint not null default 0 check (reserved_minor >= 0),
  primary key (tenant_id, currency, name)
) with (fillfactor = 50);

create table ledger_transactions (
  tenant_id uuid not null,
  id uuid not null,
  kind text not null check (kind in
    ('capture', 'refund', 'refund_failed', 'top_up', 'payout_paid', 'payout_returned', 'dispute_withdrawn', 'dispute_reinstated', 'fee', 'correction')),
  subject_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  -- What happened once is posted once, whoever reports it.
  constraint ledger_transactions_once unique (tenant_id, subject_id, kind)
);

create table ledger_entries (
  tenant_id uuid not null,
  transaction_id uuid not null,
  account text not null,
  currency text not null,
  amount_minor bigint not null check (amount_minor <> 0),
  -- That the transaction exists is checked by `post_entries`, for a whole statement at once; it can never go away.
  primary key (tenant_id, transaction_id, account)
);

-- Entries balance within the statement that writes them, and carry the balances with them: an account can be
-- neither forgotten nor written apart from its entries. Accounts are locked in their own order, last of all locks.
create function post_entries() returns trigger language plpgsql as $$
begin
  if exists (select from posted group by tenant_id, transaction_id, currency having sum(amount_minor) <> 0) then
    raise exception 'a ledger transaction does not sum to zero' using errcode = 'check_violation';
  end if;
  -- `offset 0` keeps it a look-up for each entry: as an anti-join, planned while the table is empty, it would scan for ever.
  if exists (
    select from posted p left join lateral (
      select true as found from ledger_transactions t where t.tenant_id = p.tenant_id and t.id = p.transaction_id offset 0
    ) t on true
    where t.found is null
  ) then
    raise exception 'a ledger entry belongs to no transaction' using errcode = 'foreign_key_violation';
  end if;
  insert into ledger_accounts as a (tenant_id, currency, name, balance_minor)
    select tenant_id, currency, account, sum(amount_minor) from posted
    group by tenant_id, currency, account order by tenant_id, currency, account
    on conflict (tenant_id, currency, name) do update set balance_minor = a.balance_minor + excluded.balance_minor;
  return null;
end $$;

create trigger post_entries after insert on ledger_entries referencing new table as posted
  for each statement execute function post_entries();
create trigger ledger_entries_are_final before update or delete or truncate on ledger_entries
  for each statement execute function refuse_change();
create trigger ledger_transactions_are_final before update or delete or truncate on ledger_transactions
  for each statement execute function refuse_change();

-- What happened, for integrators. `sequence` is assigned after the commit, by one sequencer per tenant.
create table events (
  tenant_id uuid not null,
  id uuid not null default gen_random_uuid(),
  type text not null,
  subject_id uuid not null,
  data jsonb not null,
  sequence bigint,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id)
);
create index events_subject on events (tenant_id, subject_id);

-- What providers told us. The tenant is unknown until the notification has been matched.
create table notifications (
  id uuid primary key,
  provider text not null,
  account text not null default '',
  event_id text not null,
  kind text not null,
  object_id text,
  payload jsonb not null,
  state text not null default 'received' check (state in ('received', 'applied', 'parked', 'ignored')),
  tenant_id uuid,
  subject_id uuid,
  received_at timestamptz not null default clock_timestamp(),
  applied_at timestamptz,
  constraint notifications_once unique (provider, account, event_id)
) with (fillfactor = 80);
create index notifications_subject on notifications (tenant_id, subject_id) where subject_id is not null;
create index notifications_parked on notifications (provider, object_id) where state = 'parked';
