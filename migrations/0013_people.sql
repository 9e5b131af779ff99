-- People: users of the dashboard, their credentials, their memberships in tenants, and the audit log of their
-- acts.

-- better-auth reads and writes these columns; we generate the ids.
create table users (
  id uuid primary key,
  name text not null check (length(name) between 1 and 255),
  -- In lower case.
  email text not null unique check (length(email) <= 320),
  -- Whether the user has proved that they receive email at this address.
  email_verified boolean not null default false,
  image text,
  two_factor_enabled boolean not null default false,
  -- An operator of the installation: sees the queues and jobs of all tenants.
  is_operator boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create table user_accounts (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  account_id text not null,
  provider_id text not null,
  -- scrypt.
  password text,
  access_token text,
  refresh_token text,
  id_token text,
  access_token_expires_at timestamptz,
  refresh_token_expires_at timestamptz,
  scope text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (provider_id, account_id)
);
create index user_accounts_user on user_accounts (user_id);

create table user_sessions (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  token text not null unique,
  expires_at timestamptz not null,
  ip_address text,
  user_agent text,
  -- The selected tenant of the session; null if none was selected yet.
  selected_tenant_id uuid references tenants (id),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index user_sessions_user on user_sessions (user_id);
create index user_sessions_expires_at on user_sessions (expires_at);

-- Challenges of sign-ins and passkeys in progress.
create table user_challenges (
  id uuid primary key,
  identifier text not null,
  value text not null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index user_challenges_identifier on user_challenges (identifier);

-- Secret and backup codes are encrypted.
create table user_two_factors (
  id uuid primary key,
  user_id uuid not null unique references users (id) on delete cascade,
  secret text not null,
  backup_codes text not null,
  verified boolean default true,
  failed_verification_count integer default 0,
  locked_until timestamptz,
  -- The time step of the last accepted code: no code is accepted twice.
  last_step bigint
);

create table user_passkeys (
  id uuid primary key,
  user_id uuid not null references users (id) on delete cascade,
  name text,
  public_key text not null,
  credential_id text not null unique,
  counter bigint not null,
  device_type text not null,
  backed_up boolean not null,
  transports text,
  aaguid text,
  created_at timestamptz default now()
);
create index user_passkeys_user on user_passkeys (user_id);

-- Wrong passwords by account and by address, in windows of five minutes.
create table sign_in_failures (
  scope text not null check (scope in ('account', 'address')),
  key text not null,
  window_start timestamptz not null default now(),
  count integer not null,
  primary key (scope, key)
);

create table members (
  tenant_id uuid not null references tenants (id),
  user_id uuid not null references users (id) on delete cascade,
  role text not null check (role in ('owner', 'admin', 'developer', 'support', 'read-only')),
  created_at timestamptz not null default now(),
  primary key (tenant_id, user_id)
);
create index members_user on members (user_id);

create table invitations (
  tenant_id uuid not null references tenants (id),
  id uuid not null,
  email text not null,
  role text not null check (role in ('owner', 'admin', 'developer', 'support', 'read-only')),
  -- SHA-256 of the token in the link.
  token_hash bytea not null unique,
  -- Null: invited by a command.
  invited_by uuid references users (id) on delete set null,
  -- Whether the link was emailed to the address; otherwise it was shown to the inviting user.
  mailed boolean not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  accepted_at timestamptz,
  revoked_at timestamptz,
  primary key (tenant_id, id)
);
create unique index invitations_open on invitations (tenant_id, email) where accepted_at is null and revoked_at is null;
create index invitations_tenant on invitations (tenant_id, created_at);
create index invitations_email on invitations (email, created_at);

-- The audit log. Each entry has the hash of the previous one, so that changing or omitting one breaks the
-- chain. Entries are limited in size, because they are never deleted.
create table audit_entries (
  seq bigint primary key,
  at timestamptz not null,
  -- Null if the entry concerns no single tenant.
  tenant_id uuid references tenants (id),
  actor_id uuid,
  actor text not null,
  action text not null,
  subject text,
  subject_id text,
  -- For an outcome: the entry of its request.
  answers bigint,
  details jsonb not null,
  request_id text,
  address text,
  previous bytea not null,
  hash bytea not null,
  constraint audit_entries_bounded check (
    jsonb_typeof(details) = 'object' and octet_length(details::text) <= 16384 and length(action) <= 100
    and length(subject_id) <= 255 and length(address) <= 100 and length(request_id) <= 100
  )
);
create index audit_entries_tenant on audit_entries (tenant_id, seq);
create index audit_entries_at on audit_entries (at);
create index audit_entries_answers on audit_entries (answers) where answers is not null;
create trigger audit_entries_append_only before update or delete on audit_entries
  for each row execute function refuse_change();
create trigger audit_entries_not_truncated before truncate on audit_entries
  for each statement execute function refuse_change();

-- The last entry.
create table audit_head (
  is_only boolean primary key default true check (is_only),
  seq bigint not null,
  hash bytea not null
);
insert into audit_head (seq, hash) values (0, sha256('sluice'));

-- The hash of an entry. The time is hashed as a number, because its text depends on the time zone of the
-- session.
create function audit_hash(entry audit_entries) returns bytea language sql immutable as $$
  select sha256(entry.previous || convert_to(jsonb_build_array(
    entry.seq, (extract(epoch from entry.at) * 1000000)::bigint, entry.tenant_id, entry.actor_id, entry.actor,
    entry.action, entry.subject, entry.subject_id, entry.answers, entry.details, entry.request_id,
    entry.address)::text, 'UTF8'))
$$;

-- Appends an entry and returns its number. Concurrent appends wait until this transaction commits. Runs with the
-- owner's rights: no process may write entries otherwise.
create function append_audit_entry(input jsonb) returns bigint language plpgsql security definer as $$
declare
  caller name := coalesce(nullif(current_setting('role'), 'none'), session_user);
  head audit_head;
  entry audit_entries;
begin
  select * into strict head from audit_head for update;
  entry := jsonb_populate_record(null::audit_entries, input - array['seq', 'at', 'previous', 'hash']);
  -- The name of a user is read from `users`: the caller cannot choose it.
  if entry.actor_id is not null then
    select email || case when email_verified then '' else ' (not verified)' end into strict entry.actor
      from users where id = entry.actor_id;
  -- Only commands, which run as the owner, may name an actor who is not a user. A process must name a user by
  -- `actor_id`: otherwise any text could be taken for a user's name.
  elsif not pg_has_role(caller, current_user, 'member')
    or exists (select from users where email = split_part(entry.actor, ' ', 1)) then
    raise insufficient_privilege using message = 'an entry in the name of a user needs actor_id';
  end if;
  entry.seq := head.seq + 1;
  entry.at := date_trunc('microseconds', clock_timestamp());
  entry.details := coalesce(entry.details, '{}');
  entry.previous := head.hash;
  entry.hash := audit_hash(entry);
  insert into audit_entries select entry.*;
  update audit_head set seq = entry.seq, hash = entry.hash;
  return entry.seq;
end $$;
