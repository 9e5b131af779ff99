// `npm run recover -- compare`: lists what the old primary has and the database in use lacks, and recovers it.
import { ConfigError } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { quantity } from '#core/describe.ts'
import { parseDatabaseUrl, serverNames } from '#core/postgres/address.ts'
import {
  compareWithOld,
  identifyDatabase,
  type ComparedBatch,
  type LackingKind,
} from '#domain/old-primary/compare.ts'
import type { OldRow } from '#domain/old-primary/rows.ts'
import {
  findSwitchToCompare,
  lookUpRows,
  recoverRequests,
  type SwitchToCompare,
  type RecoveryCounts,
} from '#domain/old-primary/recover.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { findSwitchState } from '#domain/switches/find.ts'
import { comparedSince } from '#domain/switches/losses.ts'
import { findSlugs } from '#domain/tenants.ts'
import { timeOf } from '../arguments.ts'
import { requireYes } from '../ask.ts'
import { print, printError, terminalText } from '../print.ts'
import type { Recover } from './options.ts'
import { findOtherDatabase, openReadOnly, otherDatabaseError, type OtherDatabase } from './other-database.ts'

const STATEMENT_TIMEOUT_MS = 600_000
const PROGRESS_INTERVAL_MS = 5_000
/** So many rows of a kind are printed; `--json` prints all. */
const PRINTED_ROWS = 1_000
const BY = commandActor('npm run recover', null)

/** The numbers of rows by kind: compared, and lacking here. */
type Counts = Partial<Record<LackingKind, { compared: number; lacking: number }>>

export async function compareOldPrimary({ sql, config, values }: Recover): Promise<void> {
  const other = findOtherDatabase(config, '--with', values.with)
  if (other === undefined)
    throw new ConfigError('Name the old primary: --with, or OLD_DATABASE_URL. See --help.')
  const address = parseDatabaseUrl(other.url)
  if (address.pgbouncer)
    throw new ConfigError(`${other.name} must name PostgreSQL itself, without pgbouncer=true.`)
  const last = await findSwitchToCompare(sql)
  const since = sinceOf(values.since, last)
  const old = await openReadOnly(other, {
    max: 1,
    application_name: 'sluice-compare',
    statement_timeout_ms: STATEMENT_TIMEOUT_MS,
  })
  try {
    await assertComparable(sql, old, other)
    const batches = () => compareWithOld(sql, old, since, (error) => otherDatabaseError(error, other))
    const counts = await listLacking(sql, batches(), { since, json: values.json })
    const total = Object.values(counts).reduce((sum, { lacking }) => sum + lacking, 0)
    const summary = { since, counts, lacking: total }
    if (last === undefined || total === 0 || (values.json && !values.yes)) {
      if (values.json) return print(JSON.stringify({ summary, recovered: null }))
      return print(total === 0 ? 'Nothing is lacking here.' : `${NO_SWITCH} Nothing was recovered.`)
    }
    if (!values.yes)
      await requireYes('Look up the objects at their providers, and report lost requests to their tenants?')
    const recovered = await recoverLacking(sql, batches(), last)
    const details = { with: serverNames(address), since, lacking: total, ...recovered }
    await appendAuditEntry(sql, BY, { action: 'switches.compare', details })
    if (values.json) print(JSON.stringify({ summary, recovered }))
    else printCounts(recovered, last)
  } finally {
    await old.end()
  }
}

const NO_SWITCH =
  'No switch of the database is recorded that can have lost changes: npm run recover -- switched.'

function sinceOf(since: string | undefined, last: SwitchToCompare | undefined): string {
  if (since !== undefined) return new Date(timeOf(since, '--since')).toISOString()
  if (last === undefined) throw new ConfigError(`${NO_SWITCH} Or name a time with --since.`)
  return comparedSince(last.newest_at)
}

/** Throws ConfigError unless the database in use was checked, and the other one is another copy of it. */
async function assertComparable(sql: Sql, old: Sql, other: OtherDatabase): Promise<void> {
  const own = await identifyDatabase(sql)
  const compared = await identifyDatabase(old).catch((error: unknown) => {
    throw otherDatabaseError(error, other)
  })
  if (own.installation !== compared.installation)
    throw new ConfigError(`${other.name} names the database of another installation.`)
  if (own.server === compared.server) throw new ConfigError(`${other.name} names the database in use itself.`)
  const { is_on_lineage } = await findSwitchState(sql)
  if (!is_on_lineage)
    throw new ConfigError(
      'The database runs on another server than the one on record. Start a process, which checks it.',
    )
}

type Batches = AsyncIterable<ComparedBatch>

/** Prints what is lacking, and returns the numbers. */
async function listLacking(
  sql: Sql,
  batches: Batches,
  { since, json }: { since: string; json: boolean },
): Promise<Counts> {
  const counts: Counts = {}
  let next_at = performance.now() + PROGRESS_INTERVAL_MS
  for await (const batch of batches) {
    const { kind, compared } = batch
    const rows = rowsOf(batch)
    const before = counts[kind] ?? { compared: 0, lacking: 0 }
    counts[kind] = { compared: before.compared + compared, lacking: before.lacking + rows.length }
    if (performance.now() > next_at) {
      next_at = performance.now() + PROGRESS_INTERVAL_MS
      printError(`${kind}: ${counts[kind].compared} compared, ${counts[kind].lacking} lacking here`)
    }
    const printed = json ? rows : rows.slice(0, Math.max(0, PRINTED_ROWS - before.lacking))
    const ids = printed.flatMap(({ tenant_id }) => tenant_id ?? [])
    const slugs = ids.length === 0 ? new Map<string, string>() : await findSlugs(sql, [...new Set(ids)])
    for (const row of printed) {
      const tenant = slugs.get(row.tenant_id ?? '') ?? null
      print(json ? JSON.stringify({ kind, tenant, ...row }) : describeRow(kind, row, tenant))
    }
  }
  if (!json)
    for (const [kind, { compared, lacking }] of Object.entries(counts)) {
      const rest = lacking > PRINTED_ROWS ? ` (the first ${PRINTED_ROWS} are listed; --json lists all)` : ''
      if (compared > 0)
        print(`${kind.padEnd(18)}${compared} compared since ${since}, ${lacking} lacking here${rest}`)
    }
  return counts
}

function rowsOf(batch: ComparedBatch): OldRow[] {
  return 'requests' in batch ? batch.requests : batch.lacking
}

function describeRow(
  kind: LackingKind,
  { id, at, tenant_id, what, key, provider, reference }: OldRow,
  tenant: string | null,
): string {
  const texts = [
    what,
    tenant_id === null ? null : `of tenant ${tenant ?? tenant_id}`,
    key === null || key === id ? null : `key ${key}`,
    provider === null || reference === null ? null : `at the provider as ${reference}`,
  ]
  return `${kind.padEnd(18)}${terminalText(id)}  ${terminalText(at)}  ${texts.flatMap((text) => (text === null ? [] : terminalText(text))).join(', ')}`
}

/** Compares again, and recovers what is lacking. */
async function recoverLacking(sql: Sql, batches: Batches, last: SwitchToCompare): Promise<RecoveryCounts> {
  const total: RecoveryCounts = { looked_up: 0, pending: 0, reported: 0 }
  let [compared, next_at] = [0, performance.now() + PROGRESS_INTERVAL_MS]
  for await (const batch of batches) {
    compared += batch.compared
    if (performance.now() > next_at) {
      next_at = performance.now() + PROGRESS_INTERVAL_MS
      printError(`${batch.kind}: ${compared} rows compared again, ${total.looked_up} lookups requested`)
    }
    if ('requests' in batch) {
      const { looked_up, pending, reported } = await recoverRequests(sql, batch.requests, last)
      total.looked_up += looked_up
      total.pending += pending
      total.reported += reported
    } else total.looked_up += await lookUpRows(sql, batch.lacking, last.number)
  }
  return total
}

function printCounts(
  { looked_up, pending, reported }: RecoveryCounts,
  { can_report }: SwitchToCompare,
): void {
  print(`${quantity(looked_up, 'object')} of the providers will be looked up by the workers, and made again.`)
  print(
    `${quantity(reported, 'lost request')} reported to the tenants as events \`request.lost\`, besides those that were reported before.`,
  )
  if (pending === 0) return
  const reason = can_report ? 'lookups are in progress' : 'the lists of the providers are being read'
  print(
    `${quantity(pending, 'request')} not reported yet, because ${reason}: run this again in some minutes.`,
  )
}
