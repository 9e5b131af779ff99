-- locks: pauses, twin_pauses, jobs, job_history, payments
-- A column with a volatile default: the default holds for new rows, and the next step fills the others.
alter table payments add column token uuid;
alter table payments alter column token set default gen_random_uuid();
-- Finished jobs move to the history with all columns.
alter table jobs add column note text;
alter table job_history add column note text;
alter table pauses add column note text;
