-- The functions that read open jobs by the time of their creation use `jobs_by_creation`.
do $$
declare
  each regprocedure;
  definition text;
  condition constant text := 'j.finished_at is null and j.created_at <';
begin
  foreach each in array array[
    'newest_change(timestamptz)', 'record_switch(jsonb, jsonb, text, timestamptz)']::regprocedure[]
  loop
    definition := pg_get_functiondef(each);
    if position(condition in definition) = 0 then raise exception '% has another condition', each; end if;
    execute replace(definition, condition, 'j.finished_at is null and j.created_at > ''-infinity'' and j.created_at <');
  end loop;
end $$;
