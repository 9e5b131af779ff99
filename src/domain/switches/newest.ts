// The newest rows of a database, and how far they are behind what a witness remembers: what a restore would lose.
import type { Sql } from '#core/db.ts'
import { newerFacts } from './facts.ts'
import { findWitnessName, keepFacts, NO_SIGNATURE, witnessProblem, type NamedWitness } from './kept-facts.ts'
import type { ServerFacts } from './server.ts'

export type NewestRows = {
  event: { id: string; type: string; created_at: string } | null
  payment: { id: string; created_at: string } | null
  /** The last entry of the audit log. */
  audit: { seq: number; hash: string; at: string } | null
}

export async function findNewestRows(sql: Sql): Promise<NewestRows> {
  const [event = null] = await sql<NonNullable<NewestRows['event']>[]>`
    select e.id, e.type, e.created_at from tenants t cross join lateral (
      (select event_id as id, type, created_at from feed_entries f where f.tenant_id = t.id
        order by f.sequence desc limit 1)
      union all
      (select event_id, type, created_at from event_outbox o where o.tenant_id = t.id
        order by o.created_at desc limit 1)) e
    order by e.created_at desc limit 1`
  const [payment = null] = await sql<NonNullable<NewestRows['payment']>[]>`
    select p.id, p.created_at from tenants t cross join lateral (
      select id, created_at from payments p where p.tenant_id = t.id order by p.created_at desc limit 1) p
    order by p.created_at desc limit 1`
  const [audit = null] = await sql<NonNullable<NewestRows['audit']>[]>`
    select seq, encode(hash, 'hex') as hash, at from audit_entries order by seq desc limit 1`
  return { event, payment, audit }
}

/**
 * The newest facts that a witness remembers; null if there are none. `problems`: which witness cannot be used, and why.
 */
export type ReadWitnesses = { newest: ServerFacts | null; problems: string[] }

/** Once the heartbeat was raised, a process has written to each witness that it can reach. */
const NOTHING_REMEMBERED =
  'it remembers nothing of this database: it was emptied, or the variable names another place than the processes use'

/** Asks the witnesses, and changes nothing there. */
export async function readWitnesses(
  sql: Sql,
  witnesses: readonly NamedWitness[],
  encryption_keys: string,
): Promise<ReadWitnesses> {
  const name = await findWitnessName(sql)
  const answers = await Promise.allSettled(
    witnesses.map(({ witness }) => keepFacts({ witness, name, encryption_keys }, null)),
  )
  const [heartbeat] = await sql<{ is_raised: boolean }[]>`
    select number > 0 as is_raised from database_heartbeat`
  let newest: ServerFacts | null = null
  const problems: string[] = []
  for (const [nth, answer] of answers.entries()) {
    const { called } = witnesses[nth]!
    if (answer.status === 'rejected') problems.push(`${called}: ${witnessProblem(answer.reason)}`)
    else if (answer.value.invalid !== undefined) problems.push(`${called}: ${NO_SIGNATURE}`)
    else if (answer.value.facts === null && heartbeat!.is_raised)
      problems.push(`${called}: ${NOTHING_REMEMBERED}`)
    else newest = newerFacts(newest, answer.value.facts)
  }
  return { newest, problems }
}

/**
 * Whether the database lacks something that a witness remembers and that no switch records yet, by the rule of
 * `check_server`. Read the facts of the witness before.
 */
export async function isBehind(sql: Sql, witness: ServerFacts): Promise<boolean> {
  const [row] = await sql<{ is_behind: boolean }[]>`
    select is_possible(facts, l.last_switch) and is_behind(
      case when pg_is_in_recovery() then database_facts() else server_facts() end, facts) as is_behind
    from lineage l, (select ${sql.json(witness)}::jsonb as facts) witness`
  return row!.is_behind
}
