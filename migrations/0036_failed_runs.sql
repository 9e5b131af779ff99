-- Why the last run of recurring work failed, since when every run has failed, and how many did.

alter table recurring_work
  add column failure text,
  add column failing_since timestamptz,
  add column failed_runs int not null default 0;
