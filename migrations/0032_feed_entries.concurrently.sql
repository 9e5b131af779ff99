-- The entries of events that were in the feed before. Meanwhile the sequencer writes the entries of new events.
-- locks: sequenced_events access share, feed_entries row exclusive
do $$
declare
  reached record;
  after_tenant uuid := '00000000-0000-0000-0000-000000000000';
  after_sequence bigint := 0;
begin
  -- A call of the sequencer that began before its new version writes no entries. A statement of a worker ends after 12 s.
  perform pg_sleep(13) where exists (select from sequenced_events) or exists (select from unsequenced_events);
  perform from event_sequences s where s.tenant_id = '00000000-0000-7000-8000-000000000000' for update;
  commit;
  loop
    with batch as materialized (
      select e.tenant_id, e.sequence, e.id, e.type, e.created_at from sequenced_events e
      where e.sequence is not null and (e.tenant_id, e.sequence) > (after_tenant, after_sequence)
      order by e.tenant_id, e.sequence limit 5000
    ), entry as (
      insert into feed_entries (tenant_id, sequence, event_id, type, created_at)
      select b.tenant_id, b.sequence, b.id, b.type, b.created_at from batch b order by b.tenant_id, b.sequence
      on conflict do nothing
    )
    select b.tenant_id, b.sequence into reached from batch b order by b.tenant_id desc, b.sequence desc limit 1;
    exit when not found;
    after_tenant := reached.tenant_id;
    after_sequence := reached.sequence;
    commit;
  end loop;
end $$;
