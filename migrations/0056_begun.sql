-- Whose message an SMS from a person answers: the last that had left by then, not the last that was accepted.

-- When its sending last began. Null: it never did, or an older version began it.
alter table messages add column begun_at timestamptz;
alter table messages alter column begun_at set statistics 10;
