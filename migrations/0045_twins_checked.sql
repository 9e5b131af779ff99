-- locks: tenants
-- Two tenants may have one slug: a live one, and its twin. Commands of the previous release that create a tenant fail
-- from now on.
alter table tenants validate constraint tenants_mode;
alter table tenants validate constraint tenants_twin;
alter table tenants validate constraint tenants_twin_id_fkey;
alter table tenants drop constraint tenants_slug_key;
