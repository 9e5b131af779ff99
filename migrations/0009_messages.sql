-- Messages (email and SMS), their templates, and suppressed addresses. Recipients and texts are sealed;
-- addresses are found by keyed hashes, whose key the database does not have.

create table messages (
  tenant_id uuid not null,
  id uuid not null,
  -- Null for a received SMS, which has no request.
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  channel text not null check (channel in ('email', 'sms')),
  status text not null check (status in ('scheduled', 'queued', 'sending', 'unknown',
    'sent', 'delivered', 'undelivered', 'failed', 'canceled', 'suppressed', 'received')),
  -- Indexes use the following columns and not the status, so that a step between open states writes no index.
  open boolean not null generated always as (status in ('scheduled', 'queued', 'sending', 'unknown')) stored,
  ended_badly boolean not null generated always as
    (status in ('undelivered', 'failed', 'canceled', 'suppressed')) stored,
  -- Sealed JSON: sender, recipients and subject. It is not erased.
  envelope text not null,
  -- Sealed JSON: the text. Null after its retention period.
  content text,
  redacted_at timestamptz,
  -- The hash of the number or messaging service that an SMS is from.
  sender text check (length(sender) <= 64),
  -- For each recipient, in the order of the envelope: the hash of the address, the outcome and its reason.
  recipients jsonb not null,
  -- The filter terms of lists, hashed with the tenant: recipients and tags.
  terms text[] not null default '{}',
  tags text[] not null default '{}',
  provider text not null,
  -- The provider's id of the message, also of a received SMS.
  provider_reference text check (length(provider_reference) <= 255),
  -- The provider's last status of an SMS.
  provider_status text check (length(provider_status) <= 64),
  failure jsonb,
  segments integer check (segments > 0),
  encoding text check (encoding in ('GSM-7', 'UCS-2')),
  price jsonb,
  send_at timestamptz,
  -- When the last attempt to send the message began. An inbound SMS is a reply to the last message whose attempt began
  -- before the SMS was received.
  begun_at timestamptz,
  sent_at timestamptz,
  -- When the status of an SMS is next looked up; null: never again.
  lookup_at timestamptz,
  delivered_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint messages_created_at unique (tenant_id, created_at),
  -- Each channel has its own route.
  constraint messages_idempotency unique (tenant_id, idempotency_key, channel),
  -- Status callbacks name the message without its tenant.
  constraint messages_id unique (id),
  constraint messages_provider_reference unique (provider, provider_reference),
  constraint messages_key check (idempotency_key is not null or status = 'received'),
  constraint messages_recipients check (jsonb_typeof(recipients) = 'array' and jsonb_array_length(recipients) > 0),
  constraint messages_sms check (
    (channel = 'sms') = (segments is not null) and (channel = 'sms') = (encoding is not null)),
  constraint messages_scheduled check (status <> 'scheduled' or send_at is not null),
  constraint messages_sent check (status not in ('sent', 'delivered') or sent_at is not null),
  constraint messages_delivered check (status <> 'delivered' or delivered_at is not null),
  constraint messages_failure check (status not in ('failed', 'undelivered') or failure is not null)
) with (fillfactor = 80);
create index messages_open on messages (tenant_id, created_at) where open;
-- Few messages end without a delivery; the index serves their list.
create index messages_ended_badly on messages (tenant_id, created_at) where ended_badly;
create index messages_terms on messages using gin (terms);
-- Finds the tenants that wrote to a number: an opt-out of the number applies to each of them.
create index messages_sms_to on messages ((recipients -> 0 ->> 'address'), sender) where channel = 'sms';
-- SMS without a reported delivery or price.
create index messages_unreported on messages (lookup_at) where lookup_at is not null;
create index messages_content on messages (created_at)
  where content is not null and (not open or status = 'unknown');

-- The attachments of emails: each is stored once, sealed, and deleted with the content of its message.
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

-- Suppressed addresses. An address may have several reasons at once; each one is lifted separately.
create table suppressions (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text check (length(idempotency_key) between 1 and 255),
  channel text not null check (channel in ('email', 'sms')),
  -- The hash of the address, and the sealed address. Events of the suppression read the address from here, also after
  -- it was lifted, until `sealed` is erased.
  address text not null check (length(address) <= 64),
  sealed text,
  reason text not null check (reason in ('hard_bounce', 'complaint', 'opt_out', 'manual')),
  -- The message that caused the suppression.
  message_id uuid,
  -- When the cause was received; null: when the row was created.
  happened_at timestamptz,
  deleted_at timestamptz,
  metadata jsonb not null default '{}',
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint suppressions_created_at unique (tenant_id, created_at),
  constraint suppressions_idempotency unique (tenant_id, idempotency_key),
  constraint suppressions_sealed check (sealed is not null or deleted_at is not null)
);
create unique index suppressions_address on suppressions (tenant_id, channel, address, reason) where deleted_at is null;
-- A bounce or complaint from before a suppression was lifted does not restore it.
create index suppressions_lifted on suppressions (tenant_id, channel, address, reason, deleted_at)
  where deleted_at is not null;
create index suppressions_to_erase on suppressions (deleted_at) where sealed is not null and deleted_at is not null;

-- The last opt-out or opt-in of a number, by a person or by the tenant that lifted an opt-out. An earlier one
-- that is processed later changes nothing.
create table latest_opt_outs (
  tenant_id uuid not null,
  channel text not null check (channel in ('email', 'sms')),
  -- The hash of the number.
  address text not null check (length(address) <= 64),
  opts_out boolean not null,
  received_at timestamptz not null,
  -- The id of the opt-out's notification, or of the lifted suppression. Of two facts at the same time, the one with the
  -- greater id counts.
  fact_id uuid not null,
  primary key (tenant_id, channel, address)
) with (fillfactor = 80);

-- The number of messages accepted for a tenant in the current minute, and for a destination in the current hour.
create table message_limits (
  tenant_id uuid not null,
  -- `minute` for the tenant, or the hash of the destination.
  scope text not null check (length(scope) <= 64),
  window_start timestamptz not null,
  used integer not null check (used > 0),
  primary key (tenant_id, scope)
) with (fillfactor = 50);
create index message_limits_old on message_limits (window_start);
