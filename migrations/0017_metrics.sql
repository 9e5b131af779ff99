-- Operations of a provider that currently get no answer from it: one row for each worker. The provider may answer others.
create table operation_outages (
  provider text not null,
  operation text not null,
  worker text not null,
  since timestamptz not null,
  -- When the last call failed.
  failed_at timestamptz not null,
  outcome text not null,
  -- Whether the worker has got answers of other operations since.
  is_partial boolean not null,
  seen_at timestamptz not null,
  primary key (provider, operation, worker)
) with (fillfactor = 50);
