-- locks: installation

-- A copy of a database becomes an installation of its own, and what a witness remembers is signed.

-- `drawn_at`: the id changes only together with it. A copy whose id was drawn again neither takes over objects of the
-- original at providers, nor reads what witnesses remember of it.
-- `witness_key`: signs what witnesses outside of the database remember. It is drawn with the id.
create function draw_witness_key() returns bytea language sql volatile
return decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
drop trigger installation_is_final on installation;
alter table installation
  add column drawn_at timestamptz not null default now(),
  add column witness_key bytea;
update installation set witness_key = draw_witness_key(), drawn_at = now();
create trigger installation_is_final before delete or truncate on installation
  for each statement execute function refuse_change();
create trigger installation_is_kept before update on installation for each row
  when (old.drawn_at = new.drawn_at) execute function refuse_change();

-- Setting its value is the smallest write whose commit waits for a synchronous standby. It locks nothing.
create sequence replication_confirmations as smallint;

-- See 0015_settings.sql.
alter table installation alter column drawn_at set statistics 10, alter column witness_key set statistics 10;
