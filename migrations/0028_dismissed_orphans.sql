-- locks: drifts

-- When an operator dismissed an orphan: it is not reported again. The drift of an orphan that ends for another reason,
-- because its row exists or can be made, is opened again if that turns out to be wrong.
alter table drifts add column dismissed_at timestamptz;
alter table drifts alter column dismissed_at set statistics 10;
