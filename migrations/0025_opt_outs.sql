-- locks: database_switches, lineage row exclusive

-- When the texts that the provider of SMS received since the newest change before the switch had been read and applied.
-- Until then, SMS that were accepted before the switch are not sent: their recipients may have opted out.
alter table database_switches add column opt_outs_read_at timestamptz;
update database_switches set opt_outs_read_at = now();

-- See 0015_settings.sql.
alter table database_switches alter column opt_outs_read_at set statistics 10;
