-- locks: job_history share
create index concurrently job_history_note on job_history (tenant_id, note) where note is not null;
