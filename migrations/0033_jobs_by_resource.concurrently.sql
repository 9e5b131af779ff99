-- The jobs of a resource, instead of `jobs_of_resource`. The job of a notification has no resource and is not in this
-- index. A lookup by the id of a job cannot use this index, even if it is planned while the table is empty.
-- locks: jobs share update exclusive
create index concurrently jobs_by_resource on jobs (tenant_id, resource_id) where resource_id is not null;
