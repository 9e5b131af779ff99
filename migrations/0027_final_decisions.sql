-- locks: database_switches

-- What was decided or done about a switch stays: otherwise the role of the dashboard, which writes these columns, could
-- make all jobs wait again, or hide who released them.
create function keep_decisions() returns trigger language plpgsql as $$
declare
  before constant jsonb := to_jsonb(old);
  after constant jsonb := to_jsonb(new);
  decision text;
begin
  foreach decision in array array['lists_read_at', 'lists_waived_at', 'lists_waived_by', 'released_at', 'released_by',
    'messages', 'discarded_at', 'opt_outs_read_at', 'acknowledged_at', 'acknowledged_by'] loop
    if before -> decision <> 'null' and after -> decision is distinct from before -> decision then
      raise exception '% of switch % is final', decision, old.number using errcode = 'restrict_violation';
    end if;
  end loop;
  return null;
end $$;
create trigger database_switches_keep after update on database_switches for each row
  execute function keep_decisions();
