create table parcels (
  tenant_id uuid not null,
  id uuid not null,
  idempotency_key text not null check (length(idempotency_key) between 1 and 255),
  status text not null default 'pending' check (status in ('pending', 'shipped', 'refused')),
  address text not null check (length(address) between 1 and 1000),
  carrier text not null default 'carrier',
  tracking text,
  created_at timestamptz not null default unique_now(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (tenant_id, id),
  constraint parcels_created_at unique (tenant_id, created_at),
  constraint parcels_tracking unique (carrier, tracking),
  constraint parcels_idempotency unique (tenant_id, idempotency_key)
);
create index parcels_open on parcels (tenant_id, created_at) where status = 'pending';
