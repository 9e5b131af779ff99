-- The audit exempts what workers of older versions may have left, by when a migration was applied: `roles.sql`, which is applied after
-- this, lets workers read that.
comment on column top_ups.processor_status is
  'As the processor said it last. Workers of versions before 0044 post a top-up and leave this as it was.';
