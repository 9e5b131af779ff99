-- Messages: email and SMS, their templates, and the addresses that get none. Whom a message goes to and what it says is
-- sealed; addresses are found by their hashes under a key that the database does not know.

create table messages (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  channel text not null check (channel in ('email', 'sms')),
  status text not null check (status in ('scheduled', 'queued', 'sending', 'unknown', 'sent', 'delivered',
    'undelivered', 'failed', 'canceled', 'suppressed')),
  -- Indexes look at these and not at the status, so that a step between open states writes no index.
  open boolean not null generated always as (status in ('scheduled', 'queued', 'sending', 'unknown')) stored,
  ended_badly boolean not null generated always as
    (status in ('undelivered', 'failed', 'canceled', 'suppressed')) stored,
  -- Sealed JSON: who, to whom, about what. It stays.
  envelope text not null,
  -- Sealed JSON: what it says. Null once it is older than texts are kept.
  content text,
  redacted_at timestamptz,
  -- The hash of the number or messaging service that an SMS is from.
  sender text check (length(sender) <= 64),
  -- For each recipient, in the order of the envelope: the hash of the address, what became of it and why.
  recipients jsonb not null,
  -- What lists filter by, hashed with the tenant: recipients and tags.
  terms text[] not null default '{}',
  tags text[] not null default '{}',
  provider text not null,
  provider_reference text check (length(provider_reference) <= 255),
  -- The last that the provider said of an SMS.
  provider_status text check (length(provider_status) <= 64),
  failure jsonb,
  segments integer check (segments > 0),
  encoding text check (encoding in ('GSM-7', 'UCS-2')),
  price jsonb,
  send_at timestamptz,
  sent_at timestamptz,
  -- When the provider is next asked what has become of an SMS; null: not any more.
  ask_at timestamptz,
  delivered_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint messages_created_at unique (tenant_id, created_at),
  -- Each channel has a route of its own.
  constraint messages_idempotency unique (tenant_id, idempotency_key, channel),
  -- Who notifies us names the message alone.
  constraint messages_id unique (id),
  constraint messages_provider_reference unique (provider, provider_reference),
  constraint messages_recipients check (jsonb_typeof(recipients) = 'array' and jsonb_array_length(recipients) > 0),
  constraint messages_sms check (
    (channel = 'sms') = (segments is not null) and (channel = 'sms') = (encoding is not null)),
  constraint messages_scheduled check (status <> 'scheduled' or send_at is not null),
  constraint messages_sent check (status not in ('sent', 'delivered') or sent_at is not null),
  constraint messages_delivered check (status <> 'delivered' or delivered_at is not null),
  constraint messages_failure check (status not in ('failed', 'undelivered') or failure is not null)
) with (fillfactor = 80);
create index messages_open on messages (tenant_id, created_at) where open;
-- Few among all, and whom somebody looks at.
create index messages_ended_badly on messages (tenant_id, created_at) where ended_badly;
create index messages_terms on messages using gin (terms);
-- Who wrote to a number: an opt-out of it is for each of them.
create index messages_sms_to on messages ((recipients -> 0 ->> 'address'), sender) where channel = 'sms';
-- SMS of whose delivery or price nothing was heard.
create index messages_unheard on messages (ask_at) where ask_at is not null;
create index messages_content on messages (created_at)
  where content is not null and (not open or status = 'unknown');

-- Stored once, sealed; they go with the content.
create table message_attachments (
  tenant_id uuid not null,
  message_id uuid not null,
  nth integer not null check (nth >= 0),
  content text not null,
  primary key (tenant_id, message_id, nth),
  constraint message_attachments_message foreign key (tenant_id, message_id) references messages (tenant_id, id)
);

create table templates (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  name text not null check (name ~ '^[a-z0-9_-]{1,64}$'),
  channel text not null check (channel in ('email', 'sms')),
  subject text,
  text text,
  html text,
  body text,
  deleted_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint templates_created_at unique (tenant_id, created_at),
  constraint templates_idempotency unique (tenant_id, idempotency_key)
);
create unique index templates_name on templates (tenant_id, name) where deleted_at is null;

-- Who gets nothing any more. One that was deleted stays as a row without the address.
create table suppressions (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  channel text not null check (channel in ('email', 'sms')),
  -- The hash, and the address sealed.
  address text not null check (length(address) <= 64),
  sealed text,
  reason text not null check (reason in ('hard_bounce', 'complaint', 'opt_out', 'manual')),
  -- The message that brought it about.
  message_id uuid,
  deleted_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint suppressions_created_at unique (tenant_id, created_at),
  constraint suppressions_idempotency unique (tenant_id, idempotency_key),
  constraint suppressions_sealed check ((sealed is null) = (deleted_at is not null))
);
create unique index suppressions_address on suppressions (tenant_id, channel, address) where deleted_at is null;

-- How many messages were accepted in the present minute of a tenant, and in the present hour of a destination of it.
create table message_limits (
  tenant_id uuid not null,
  -- `minute`, or the hash of the destination.
  scope text not null check (length(scope) <= 64),
  window_start timestamptz not null,
  used integer not null check (used > 0),
  primary key (tenant_id, scope)
) with (fillfactor = 50);
create index message_limits_old on message_limits (window_start);

do $$
declare
  each record;
begin
  for each in
    select a.attrelid::regclass as name, a.attname as column_name
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    where c.relnamespace = current_schema()::regnamespace and a.attnum > 0 and not a.attisdropped
      and c.relname in ('messages', 'message_attachments', 'templates', 'suppressions', 'message_limits')
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.column_name);
  end loop;
end $$;
