-- A confirmed proposal that cannot be carried out now goes behind the others and says why.
alter table proposals add column failed_at timestamptz, add column error text check (length(error) between 1 and 600),
  add constraint proposals_error check ((error is null) = (failed_at is null) and (error is null or carried_out_at is null));
drop index proposals_confirmed;
create index proposals_confirmed on proposals (failed_at nulls first, decided_at) where decision = 'confirmed' and carried_out_at is null;
