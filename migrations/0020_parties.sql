-- Whom payouts go to (recipients) and on whose behalf payments are taken (merchants). Both are archived and never deleted: payouts and
-- payments name them. `kyc_status` is that of the latest verification.

create table recipients (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  name text not null check (length(name) between 1 and 256),
  email text check (length(email) <= 320),
  type text not null check (type in ('bank_account', 'card', 'account')),
  currency text not null check (currency ~ '^[a-z]{3}$'),
  country text not null check (country ~ '^[A-Z]{2}$'),
  -- A token of the processor, never the number of an account or card: the last line of what the API refuses.
  destination text not null,
  kyc_status text not null default 'none',
  archived_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint recipients_created_at unique (tenant_id, created_at),
  constraint recipients_idempotency unique (tenant_id, idempotency_key),
  constraint recipients_destination check (length(destination) <= 255 and destination ~ case type
    when 'bank_account' then '^ba_[0-9_]*[A-Za-z][A-Za-z0-9_]*$' when 'card' then '^card_[0-9_]*[A-Za-z][A-Za-z0-9_]*$' else '^acct_[0-9_]*[A-Za-z][A-Za-z0-9_]*$' end),
  constraint recipients_kyc_status check (kyc_status in ('none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'))
);
create index recipients_email on recipients (tenant_id, email, created_at) where email is not null;
-- The archived ones are few among all, and have a list of their own.
create index recipients_archived on recipients (tenant_id, created_at) where archived_at is not null;

create table merchants (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  legal_name text not null check (length(legal_name) between 1 and 256),
  display_name text not null check (length(display_name) between 1 and 256),
  country text not null check (country ~ '^[A-Z]{2}$'),
  support_email text not null check (length(support_email) between 1 and 320),
  url text check (length(url) <= 2048),
  kyc_status text not null default 'none',
  archived_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint merchants_created_at unique (tenant_id, created_at),
  constraint merchants_idempotency unique (tenant_id, idempotency_key),
  constraint merchants_kyc_status check (kyc_status in ('none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'))
);
create index merchants_archived on merchants (tenant_id, created_at) where archived_at is not null;

alter table customers add column kyc_status text not null default 'none' constraint customers_kyc_status
  check (kyc_status in ('none', 'pending', 'requires_input', 'processing', 'approved', 'rejected'));

-- Without a foreign key: a tenant has few merchants, and each payment would lock the row of its own. The statement that accepts a payment
-- looks whether the merchant is there, no merchant is ever deleted, and the audit looks again.
alter table payments add column merchant_id uuid;
create index payments_merchant on payments (tenant_id, merchant_id, created_at) where merchant_id is not null;

do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and c.relname in ('recipients', 'merchants') and a.attnum > 0 and not a.attisdropped
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
  alter table customers alter column kyc_status set statistics 10;
  alter table payments alter column merchant_id set statistics 10;
end $$;
