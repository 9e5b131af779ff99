-- The open jobs for which no wake-up was sent, such as retries. Workers look for them all the time. Most jobs are
-- never in this index, so looking costs little while wake-ups bring the work.
-- locks: jobs share update exclusive
create index concurrently jobs_without_wakeup
  on jobs (queue, tenant_id, priority, run_at) where finished_at is null and wakeup_sent_at is null;
