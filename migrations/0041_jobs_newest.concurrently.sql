-- `jobs_by_creation` serves the statements that used it.
-- locks: jobs share update exclusive
drop index concurrently if exists jobs_newest;
