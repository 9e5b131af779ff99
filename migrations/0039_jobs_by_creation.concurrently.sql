-- The list of open jobs, instead of `jobs_newest`. Only a statement with this condition can use the index. Two indexes
-- with the condition of `jobs_open` cost the same for PostgreSQL when its statistics count no open job, so a scan for
-- due jobs could read all of the other one for each tenant.
-- locks: jobs share update exclusive
create index concurrently jobs_by_creation
  on jobs (created_at, id) where finished_at is null and created_at > '-infinity';
