-- A process says of itself only that it is there, and that it has ended: rows are the workers' to remove. So that nobody fills the table, of each
-- name the last 200 are kept, those that have ended first to go.
alter table processes add column ended_at timestamptz;

create function keep_last_processes() returns trigger language plpgsql as $$
begin
  delete from processes p using (
    select id, row_number() over (partition by name order by ended_at is null desc, seen_at desc, id) as place from processes) ranked
  where p.id = ranked.id and ranked.place > 200;
  return null;
end $$;
-- With the owner's rights: who inserts may remove nothing.
do $$ begin
  execute format('alter function keep_last_processes() security definer set search_path = %I, pg_temp', current_schema());
end $$;
revoke all on function keep_last_processes() from public;
create trigger processes_kept after insert on processes for each statement execute function keep_last_processes();

-- Whose rows are whose says roles.sql.
alter table processes enable row level security;
