-- locks: processes

-- A process that reports a time in the future would never count as lost, and a seal of the database would wait for it.
create function limit_seen_at() returns trigger language plpgsql as $$
begin
  new.seen_at := least(new.seen_at, clock_timestamp());
  return new;
end $$;
create trigger processes_seen before insert or update of seen_at on processes for each row
  execute function limit_seen_at();
update processes set seen_at = now() where seen_at > now();
