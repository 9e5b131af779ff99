-- locks: installation

-- A copy of a database becomes an installation of its own.

-- `drawn_at`: the id changes only together with it. A copy whose id was drawn again neither takes over objects of the
-- original at providers, nor reads what witnesses remember of it.
drop trigger installation_is_final on installation;
alter table installation add column drawn_at timestamptz not null default now();
create trigger installation_is_final before delete or truncate on installation
  for each statement execute function refuse_change();
create trigger installation_is_kept before update on installation for each row
  when (old.drawn_at = new.drawn_at) execute function refuse_change();

-- Setting its value is the smallest write whose commit waits for a synchronous standby. It locks nothing.
create sequence replication_confirmations as smallint;

-- See 0015_settings.sql.
alter table installation alter column drawn_at set statistics 10;
