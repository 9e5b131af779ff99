// Mutations that remove protections against a database that goes back in time.
import { EFFECT_WITHOUT_PAYMENT } from '#test/invariants.ts'
import { SEQUENCE_REUSED } from '../verdict/feeds.ts'
import { DONE_TWICE } from '../verdict/money.ts'
import type { Mutation } from './mutation.ts'

export const SWITCH_MUTATIONS: Mutation[] = [
  {
    name: 'random-ids',
    about: 'ids of requests with an idempotency key are drawn, not derived',
    expect: DONE_TWICE,
    faults: ['restore'],
    patches: [
      {
        file: 'src/core/ids.ts',
        from: 'const id = derivedId(tenant_id, path, key)',
        to: 'const id = derivedId(tenant_id, path, key, newId())',
      },
    ],
  },
  {
    name: 'switch-unseen',
    about: 'each server counts as the one on record, so no switch of the database is noticed',
    expect: SEQUENCE_REUSED,
    faults: ['restore'],
    patches: [
      {
        file: 'src/domain/switches/server.ts',
        from: '  const facts = witness === null ? null : sql.json(witness)',
        to: `  await sql\`
    update lineage set (system_identifier, timeline, server_started_at) = (
      select system_identifier::text, current_timeline(), pg_postmaster_start_time() from pg_control_system())
    where server_started_at <> pg_postmaster_start_time() or timeline <> current_timeline()\`
  const facts = null`,
      },
    ],
  },
  {
    name: 'no-witness',
    about: 'what a witness remembers is ignored, so an older copy of the files counts as the present',
    expect: SEQUENCE_REUSED,
    faults: ['restore-volume'],
    patches: [
      {
        file: 'src/domain/switches/checks.ts',
        from: 'checkServer(sql, memory.newest(), {',
        to: 'checkServer(sql, null, {',
      },
    ],
  },
  {
    name: 'orphans-ignored',
    about: 'an object of ours that has no row is ignored',
    expect: EFFECT_WITHOUT_PAYMENT,
    faults: ['restore'],
    patches: [
      {
        file: 'src/workers/handlers/notifications/recover.ts',
        from: 'if (!is_ours) return undefined',
        to: 'if (is_ours || !is_ours) return undefined',
      },
    ],
  },
  {
    name: 'one-million',
    about: 'a feed continues a million after its last sequence, not at the clock',
    expect: SEQUENCE_REUSED,
    faults: ['restore-twice'],
    patches: [
      {
        file: 'migrations/0022_server_checks.sql',
        from: `greatest(coalesce(s.last_sequence, 0) + 1,
      (extract(epoch from greatest(clock_timestamp(), restart_feeds.clock) - start) * 1000000)::bigint)`,
        to: 'coalesce(s.last_sequence, 0) + 1000000',
      },
    ],
  },
]
