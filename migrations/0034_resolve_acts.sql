-- Operators say in the dashboard what became of a call whose outcome is not known: of one job, never of all that a filter finds.
-- `reference`: the provider's id of what the call made.

alter table operator_acts
  add column took_effect boolean,
  add column reference text check (length(reference) between 1 and 255),
  drop constraint operator_acts_act_check,
  add constraint operator_acts_act_check check (act in ('retry', 'discard', 'run_now', 'resolve')),
  add constraint operator_acts_resolve check (
    (act = 'resolve') = (took_effect is not null)
    and (act <> 'resolve' or job_id is not null)
    and (reference is null or coalesce(took_effect, false)));
