-- locks: job_history row exclusive
do $$
declare
  position record;
  after_id uuid := '00000000-0000-0000-0000-000000000000';
begin
  loop
    with batch as materialized (
      select id, finished_at from job_history where id > after_id order by id limit 500
    ), filled as (
      update job_history j set note = 'from before' from batch b
      where j.id = b.id and j.finished_at = b.finished_at and j.note is null
    )
    select id into position from batch order by id desc limit 1;
    exit when not found;
    after_id := position.id;
    commit;
  end loop;
end $$;
