-- locks: tenants share update exclusive
create unique index concurrently tenants_twin_id on tenants (twin_id);
