-- locks: tenants share row exclusive

-- The sandbox of a tenant in test mode: what a payment processor would know of it. A worker that calls the sandbox
-- locks this row for the length of one transaction.
create table sandboxes (
  tenant_id uuid primary key references tenants (id) on delete cascade,
  -- The highest format of the records. A worker that does not know it leaves the sandbox to those that do.
  format integer not null default 1 check (format > 0),
  -- The position of the newest record. A process that has the sandbox in memory reads only the records after its own.
  last_position bigint not null default 0 check (last_position >= 0),
  -- Grows when records are deleted or replaced, other than by the sandbox itself: memory of an earlier generation is
  -- dropped.
  generation bigint not null default 0,
  -- How far the clock of the sandbox is ahead of the database's.
  clock_offset_ms bigint not null default 0,
  -- When the next scheduled change is due, by the database's clock; null: none is scheduled.
  due_at timestamptz,
  -- The size of all records, as text.
  bytes bigint not null default 0 check (bytes >= 0),
  pruned_at timestamptz not null default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);
create index sandboxes_due on sandboxes (due_at) where due_at is not null;
create index sandboxes_pruned on sandboxes (pruned_at);

-- Everything in a sandbox, in the order in which it happened.
create table sandbox_records (
  tenant_id uuid not null references sandboxes (tenant_id) on delete cascade,
  position bigint not null check (position > 0),
  -- `version`: of an object. `change`: that is scheduled, or was.
  kind text not null check (kind in ('version', 'event', 'answer', 'change')),
  -- Of a version its revision, of an event its id, of an answer its idempotency key, of a change its kind and object.
  key text not null check (length(key) between 1 and 400),
  -- The object that the record is about; null for the answer of a request that was refused.
  object text check (length(object) <= 255),
  -- The object to which that one belongs, such as the payment of a charge: they are deleted together.
  root text check (length(root) <= 255),
  -- Not `jsonb`, which sorts the names: a replayed answer has the bytes of the first one.
  line json not null,
  bytes integer not null check (bytes > 0),
  created_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, position),
  constraint sandbox_records_key unique (tenant_id, kind, key)
);
create index sandbox_records_root on sandbox_records (tenant_id, root);

-- See 0015_settings.sql.
do $$
declare
  each record;
begin
  for each in
    select attrelid::regclass as name, attname from pg_attribute
    where attrelid in ('sandboxes'::regclass, 'sandbox_records'::regclass) and attnum > 0
  loop
    execute format('alter table %s alter column %I set statistics 10', each.name, each.attname);
  end loop;
end $$;
