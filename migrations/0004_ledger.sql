-- The ledger and the wallet: accounts, transfers between them, and top-ups with a tenant's own money.

create table ledger_accounts (
  tenant_id uuid not null,
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  name text not null check (name in ('available', 'processor_clearing', 'fees')),
  balance_minor bigint not null default 0,
  reserved_minor bigint not null default 0 check (reserved_minor >= 0),
  -- The number of transfers of the account, and the time of the last one.
  last_seq bigint not null default 0,
  last_at timestamptz,
  primary key (tenant_id, currency, name)
) with (fillfactor = 50);

-- One row moves one amount between two accounts, so the ledger balances by construction.
create table ledger_transfers (
  tenant_id uuid not null,
  id uuid not null,
  kind text not null check (kind in ('capture', 'refund', 'refund_failed', 'top_up', 'top_up_reversed', 'payout_paid',
    'payout_returned', 'dispute_withdrawn', 'dispute_reinstated', 'fee', 'correction')),
  subject_id uuid not null,
  -- Distinguishes transfers with the same kind and subject. For a returned payout: the amount returned before.
  -- For a dispute: the processor's id of the movement.
  reference text not null default '',
  debit_account text not null check (debit_account in ('available', 'processor_clearing', 'fees')),
  credit_account text not null check (credit_account in ('available', 'processor_clearing', 'fees')),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  amount_minor bigint not null check (amount_minor > 0),
  -- For transfers from or to `available`: the order without gaps, and the balance after each.
  seq bigint,
  balance_after_minor bigint,
  created_at timestamptz not null,
  -- A movement is posted once, even if it is reported several times.
  constraint ledger_transfers_once primary key (tenant_id, subject_id, kind, reference),
  constraint ledger_transfers_move_something check (debit_account <> credit_account),
  constraint ledger_transfers_of_available check
    ((seq is not null) = ('available' in (debit_account, credit_account))
      and (balance_after_minor is not null) = (seq is not null))
);
create unique index ledger_transfers_seq on ledger_transfers (tenant_id, currency, seq) where seq is not null;
-- The table is append-only, so recent rows are adjacent.
create index ledger_transfers_created_at on ledger_transfers using brin (created_at);
create trigger ledger_transfers_are_final before update or delete or truncate on ledger_transfers
  for each statement execute function refuse_change();

create table top_ups (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  status text not null default 'pending' check (status in ('pending', 'succeeded', 'failed', 'canceled')),
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  currency text not null check (currency ~ '^[a-z]{3}$'),
  -- Masked. The request of the job contains the token, sealed, until the job finishes.
  source text check (length(source) <= 64),
  description text check (length(description) <= 1000),
  processor text not null,
  processor_reference text,
  -- The processor's last status; it only moves forward. Null: not reported yet.
  processor_status text check (processor_status in ('pending', 'succeeded', 'failed', 'canceled', 'reversed')),
  -- The amounts posted: received, and reversed. The money of a top-up that failed here may still arrive.
  received_minor bigint not null default 0,
  reversed_minor bigint not null default 0,
  failure jsonb,
  succeeded_at timestamptz,
  failed_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint top_ups_created_at unique (tenant_id, created_at),
  constraint top_ups_idempotency unique (tenant_id, idempotency_key),
  constraint top_ups_processor_reference unique (processor, processor_reference),
  constraint top_ups_posted check (received_minor in (0, amount_minor) and reversed_minor in (0, received_minor)),
  constraint top_ups_pending_is_not_posted check (status <> 'pending' or received_minor = 0),
  constraint top_ups_succeeded_is_posted check (succeeded_at is null or received_minor = amount_minor),
  -- A top-up that failed after it had succeeded was reversed.
  constraint top_ups_succeeded check (case status when 'succeeded' then succeeded_at is not null
    when 'failed' then true else succeeded_at is null end),
  constraint top_ups_failure check ((status = 'failed') = (failure is not null)
    and (status = 'failed') = (failed_at is not null))
) with (fillfactor = 70);
create index top_ups_open on top_ups (tenant_id, created_at) where status = 'pending';
