-- Tenants, their API keys, and the functions that tables share.

-- Milliseconds come from the clock and microseconds from a sequence. Two rows of one millisecond differ, so
-- `before=<created_at>` is an exact cursor. Each table that has lists has a unique index on `created_at`.
create sequence created_at_microseconds as smallint minvalue 0 maxvalue 999 start 0 cycle;

create function unique_now() returns timestamptz language sql volatile as $$
  select date_trunc('milliseconds', clock_timestamp()) + nextval('created_at_microseconds') * interval '1 microsecond'
$$;

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;

create table tenants (
  id uuid primary key,
  slug text not null unique check (slug ~ '^[a-z0-9-]{1,40}$'),
  name text not null,
  -- Receives email about problems that the tenant must solve.
  contact_email text check (length(contact_email) between 3 and 320),
  -- The domains from which the tenant may send email; null: those of the installation.
  email_domains text[] check (cardinality(email_domains) <= 100),
  -- The numbers, messaging services and names from which the tenant may send SMS; the first is the default. Null: the
  -- tenant may use any sender, and the installation's default is used.
  sms_senders text[] check (cardinality(sms_senders) <= 100),
  created_at timestamptz not null default now()
);

-- Owns jobs without a tenant: maintenance, and notifications that are not assigned yet.
insert into tenants (id, slug, name) values ('00000000-0000-7000-8000-000000000000', 'system', 'Sluice itself');

create table api_keys (
  tenant_id uuid not null references tenants (id),
  id uuid not null,
  name text not null,
  hash bytea not null unique,
  last_four text not null,
  scopes text[] not null,
  created_at timestamptz not null default unique_now(),
  last_used_at timestamptz,
  expires_at timestamptz,
  revoked_at timestamptz,
  primary key (tenant_id, id)
);
