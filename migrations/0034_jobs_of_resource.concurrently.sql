-- `jobs_by_resource` serves each statement that names a resource, also those of the previous release.
-- locks: jobs share update exclusive
drop index concurrently if exists jobs_of_resource;
