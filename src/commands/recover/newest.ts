// The newest rows that a database has, and how far they are behind what the witnesses have seen, for operators.
import { usesRedis, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { quantity } from '#core/describe.ts'
import { openWitnessPlace } from '#core/witness-place.ts'
import type { NamedWitness } from '#domain/switches/kept-facts.ts'
import {
  findNewestRows,
  isBehind,
  readWitnesses,
  type NewestRows,
  type ReadWitnesses,
} from '#domain/switches/newest.ts'
import type { ServerFacts } from '#domain/switches/server.ts'
import { print, terminalText } from '../print.ts'
import { withQueue } from './queue.ts'

/** What Redis and WITNESS_URL remember is signed with a key that is derived from ENCRYPTION_KEY. */
export const NO_KEY =
  'ENCRYPTION_KEY is not set: without it, what Redis and WITNESS_URL remember cannot be verified'

/** `behind_s`: seconds before the witness last read the clock; null without a witness. */
type Behind<Row> = (Row & { behind_s: number | null }) | null

export type Newest = {
  event: Behind<NonNullable<NewestRows['event']>>
  payment: Behind<NonNullable<NewestRows['payment']>>
  /** `entries_behind`: the number of later entries that the witness has seen. */
  audit: Behind<NonNullable<NewestRows['audit']> & { entries_behind: number | null }>
  witness: ServerFacts | null
  /** Whether the witness has seen changes that are missing here; false without a witness. */
  is_behind: boolean
  /** Which witness cannot be used, and why. */
  witness_problems: string[]
}

/** Reads the newest rows, and asks Redis and the place at WITNESS_URL, which are not changed. */
export async function readNewest(sql: Sql, config: Config): Promise<Newest> {
  const { event, payment, audit } = await findNewestRows(sql)
  const { newest: witness, problems: witness_problems } = await askWitnesses(sql, config)
  const is_behind = witness !== null && (await isBehind(sql, witness))
  const behind = (at: string) =>
    witness === null ? null : Math.max(0, Math.round((Date.parse(witness.clock) - Date.parse(at)) / 1000))
  const seen = witness?.audit?.seq
  return {
    event: event && { ...event, behind_s: behind(event.created_at) },
    payment: payment && { ...payment, behind_s: behind(payment.created_at) },
    audit: audit && {
      ...audit,
      behind_s: behind(audit.at),
      entries_behind: seen === undefined ? null : Math.max(0, seen - audit.seq),
    },
    witness,
    is_behind,
    witness_problems: witness_problems.map((problem) => terminalText(problem)),
  }
}

/** Asks Redis and the place at WITNESS_URL, which are not changed. */
export async function askWitnesses(sql: Sql, config: Config): Promise<ReadWitnesses> {
  const { WITNESS_URL, ENCRYPTION_KEY } = config
  const places: NamedWitness[] =
    WITNESS_URL === undefined
      ? []
      : [{ called: 'WITNESS_URL', witness: openWitnessPlace(WITNESS_URL, { warn() {}, error() {} }) }]
  const uses_redis = usesRedis(config)
  if (!uses_redis && places.length === 0) return { newest: null, problems: [] }
  if (ENCRYPTION_KEY === undefined) return { newest: null, problems: [NO_KEY] }
  if (!uses_redis) return await readWitnesses(sql, places, ENCRYPTION_KEY)
  return await withQueue(
    config,
    async (queue) =>
      await readWitnesses(sql, [{ called: 'Redis', witness: queue }, ...places], ENCRYPTION_KEY),
  )
}

/** The texts of a database that is not in use are untrusted. */
export function printNewest({ event, payment, audit, witness, is_behind, witness_problems }: Newest): void {
  const line = (name: string, at: string, behind_s: number | null, what: string) =>
    print(
      terminalText(
        `${name.padEnd(16)}${at}${behind_s === null ? '' : `, ${durationText(behind_s)} before the witness`}: ${what}`,
      ),
    )
  if (event === null) print('newest event    none')
  else line('newest event', event.created_at, event.behind_s, `${event.type} ${event.id}`)
  if (payment === null) print('newest payment  none')
  else line('newest payment', payment.created_at, payment.behind_s, payment.id)
  if (audit === null) print('audit log       empty')
  else line('audit log', audit.at, audit.behind_s, `entry ${audit.seq}${missingText(audit.entries_behind)}`)
  const nothing =
    witness_problems.length > 0
      ? 'not known'
      : 'none: Redis and WITNESS_URL remember nothing of this database'
  const seen = is_behind ? 'changes that it has seen are' : 'nothing that it has seen is'
  print(
    `witness         ${witness === null ? nothing : `last saw the database at ${terminalText(witness.clock)}: ${seen} missing here`}`,
  )
  for (const problem of witness_problems) print(`                cannot be used: ${problem}`)
}

function missingText(entries: number | null): string {
  return entries === null || entries === 0 ? '' : `; the witness has seen ${quantity(entries, 'later one')}`
}

/** A duration in its largest unit, such as `90 s`, `3 min` or `2 days`. */
export function durationText(seconds: number): string {
  if (seconds < 120) return `${seconds} s`
  if (seconds < 2 * 3600) return `${Math.round(seconds / 60)} min`
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`
  return `${Math.round(seconds / 86_400)} days`
}
