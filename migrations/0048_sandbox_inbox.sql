-- locks: tenants share row exclusive

-- The inbox of a tenant in test mode: the email and SMS that it has sent, which nobody else receives, and the SMS that
-- answer them.
create table sandbox_messages (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  channel text not null check (channel in ('email', 'sms')),
  direction text not null check (direction in ('sent', 'received')),
  -- The id at the provider, as in `messages.provider_reference`.
  reference text not null check (length(reference) between 1 and 998),
  -- Of an SMS: the hashes of the other person's number, and of ours or of our messaging service.
  person text check (length(person) <= 64),
  sender text check (length(sender) <= 64),
  -- Of a received SMS: what its keyword asks for.
  keyword text check (keyword in ('opt_out', 'opt_in', 'help', 'other')),
  status text not null check (status in ('sent', 'delivered', 'undelivered', 'failed', 'received')),
  -- Addresses, subject and texts, sealed.
  content text not null check (octet_length(content) <= 1048576),
  bytes integer not null generated always as (octet_length(content)) stored,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  check ((direction = 'received') = (status = 'received')),
  check ((direction = 'received') = (keyword is not null)),
  check ((channel = 'sms') = (person is not null and sender is not null))
);
-- Lists of the inbox, and the deletion of its oldest messages.
create index sandbox_messages_created_at on sandbox_messages (tenant_id, created_at, id) include (bytes);
create index sandbox_messages_reference on sandbox_messages (tenant_id, reference);
-- Opt-outs, and searches for an SMS to a number.
create index sandbox_messages_person on sandbox_messages (tenant_id, person, created_at) where person is not null;

-- What a person does in a sandbox by the dashboard: as the buyer, as a bank, or as the recipient of an SMS. A worker
-- carries it out.
create table sandbox_acts (
  tenant_id uuid not null references tenants (id) on delete cascade,
  id uuid not null,
  act text not null check (act in ('pay', 'fail_payment', 'open_dispute', 'fail_payout', 'answer_sms')),
  -- The provider's id of the payment or payout, or the id of the SMS in the inbox.
  reference text not null check (length(reference) between 1 and 255),
  -- The text of an answer, sealed.
  content text check (octet_length(content) <= 16384),
  created_at timestamptz not null default clock_timestamp(),
  done_at timestamptz,
  -- Why nothing was done; null: it was.
  refused text check (length(refused) <= 500),
  primary key (tenant_id, id),
  check ((act = 'answer_sms') = (content is not null)),
  check (refused is null or done_at is not null)
);
create index sandbox_acts_open on sandbox_acts (created_at) where done_at is null;

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('sandbox_messages'::regclass, 'sandbox_acts'::regclass) and attnum > 0
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
end $$;
