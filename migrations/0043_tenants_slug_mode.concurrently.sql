-- locks: tenants share update exclusive
create unique index concurrently tenants_slug_mode on tenants (slug, mode);
