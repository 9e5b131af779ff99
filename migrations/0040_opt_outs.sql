-- An address may be suppressed for several reasons at once: each stands until it is lifted by itself. The last opt-out
-- word of a person wins by the time at which it was received. What people send us is kept as messages.

drop index suppressions_address;
create unique index suppressions_address on suppressions (tenant_id, channel, address, reason) where deleted_at is null;
-- When what brought it about was received; null: when the row was made.
alter table suppressions add column happened_at timestamptz;
-- A bounce or complaint from before the tenant lifted its suppression does not bring it back.
create index suppressions_lifted on suppressions (tenant_id, channel, address, reason, deleted_at) where deleted_at is not null;

-- The last word about a number: a person's, or its tenant's, who lifted an opt-out. An earlier one that is processed
-- later changes nothing.
create table last_opt_words (
  tenant_id uuid not null,
  channel text not null check (channel in ('email', 'sms')),
  -- The hash.
  address text not null check (length(address) <= 64),
  opts_out boolean not null,
  received_at timestamptz not null,
  -- The notification that brought it, or the suppression that was lifted: of two of one time the greater counts.
  fact_id uuid not null,
  primary key (tenant_id, channel, address)
) with (fillfactor = 80);

alter table messages drop constraint messages_status_check;
alter table messages add constraint messages_status_check check (status in ('scheduled', 'queued', 'sending', 'unknown',
  'sent', 'delivered', 'undelivered', 'failed', 'canceled', 'suppressed', 'received'));

-- The domains of which a tenant may be the sender of email; null: those of the installation.
alter table tenants add column email_domains text[] check (cardinality(email_domains) <= 100);
