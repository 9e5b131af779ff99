// Prints the effects of each kind of fault as a table.
import type { Problem } from '#test/invariants.ts'
import type { ClientRecord } from './record.ts'
import type { EventCounts } from './verdict/events.ts'
import type { Verdict } from './verdict/verdict.ts'

/** An injected fault. All effects until the next fault count for this fault. Clock: `performance.now()`. */
export type Inflicted = { fault: string; at: number; recovery_ms: number | null; fenced: number }

const LOST_PROBLEM =
  /lost|skipped|not claimed|neither queued nor in progress|without an open job|no open job|not applied|did not arrive|still open|still pending/
const DUPLICATE_PROBLEM = /twice|two |accepted for more|exactly once|was paid$/

const COLUMNS = [
  'fault',
  'times',
  'accepted',
  'finished',
  'jobs_lost',
  'double_effects',
  'replays_absorbed',
  'fenced',
  'recovery p50',
  'max',
] as const

/** The table as text. The first row covers the time before the first fault, the last row is the sum. */
export function describe(
  inflicted: Inflicted[],
  record: ClientRecord,
  { problems, finished }: Verdict,
): string {
  const names = ['(none)', ...new Set(inflicted.map(({ fault }) => fault)), '(unplaced)']
  const of = (at: number) => inflicted.findLast((one) => one.at <= at)?.fault ?? '(none)'
  const placed = new Map<string, string>()
  for (const { id, key, at } of record.accepted.values()) {
    placed.set(key, of(at))
    if (!placed.has(id)) placed.set(id, of(at))
  }
  const faultOf = (problem: Problem) =>
    Object.values(problem)
      .map((fact) => placed.get(String(fact)))
      .find((found) => found !== undefined) ?? '(unplaced)'
  const lost_faults = problems.filter(({ problem }) => LOST_PROBLEM.test(problem)).map(faultOf)
  const duplicate_faults = problems.filter(({ problem }) => DUPLICATE_PROBLEM.test(problem)).map(faultOf)
  const accepted = [...record.accepted.values()]
  const times = (list: string[], name: string) => list.filter((one) => one === name).length

  const rows = names.map((name) => {
    const own = inflicted.filter(({ fault }) => fault === name)
    const own_requests = accepted.filter(({ at }) => of(at) === name)
    const recoveries = own.flatMap(({ recovery_ms }) => recovery_ms ?? []).sort((a, b) => a - b)
    const counts = [
      own.length,
      own_requests.length,
      own_requests.filter(({ key }) => finished.has(key)).length,
      times(lost_faults, name),
      times(duplicate_faults, name),
      times(record.replays.map(of), name),
      own.reduce((sum, { fenced }) => sum + fenced, 0),
    ]
    return { name, counts, recoveries }
  })
  const sums = rows[0]!.counts.map((_, column) => rows.reduce((sum, { counts }) => sum + counts[column]!, 0))
  const all = rows.flatMap(({ recoveries }) => recoveries).sort((a, b) => a - b)
  const visible = rows.filter(({ counts }) => counts.some((count) => count > 0))
  const lines = [...visible, { name: 'all', counts: sums, recoveries: all }].map(
    ({ name, counts, recoveries }) => [
      name,
      ...counts.map(String),
      seconds(recoveries[Math.floor((recoveries.length - 1) / 2)]),
      seconds(recoveries.at(-1)),
    ],
  )
  const table = [[...COLUMNS], ...lines]
  const widths = COLUMNS.map((_, column) => Math.max(...table.map((line) => line[column]!.length)))
  return table
    .map((line) =>
      line
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!)))
        .join('  '),
    )
    .join('\n')
}

/** One line: counts of payouts, top-ups and verifications by status. */
export function describeEnds({ payout, top_up, kyc }: Verdict['ends']): string {
  return `payouts: ${countsText(payout)}; top-ups: ${countsText(top_up)}; verifications: ${countsText(kyc)}`
}

/** One line: final statuses of messages, and how ambiguous messages were resolved. */
export function describeMessages({ ends, messages }: Verdict): string {
  const { ambiguous, reported, found, unknown, failed_and_sent } = messages
  return `messages: ${countsText(ends.message)}; ${ambiguous} were ambiguous: ${reported} were resolved by the provider's report and ${found} by a lookup, ${unknown} stay unknown; ${failed_and_sent} were sent although the provider reported a failure`
}

/** One line: counts of events, deliveries and requests. */
export function describeEvents({
  events,
  feeds,
  endpoints,
  deliveries,
  requests,
  repeated,
}: EventCounts): string {
  return `events: ${events} in ${feeds} feeds; ${deliveries} deliveries to ${endpoints} endpoints in ${requests} requests, ${repeated} of them repeated`
}

function countsText(counts: Record<string, number>): string {
  const parts = Object.entries(counts).map(([status, count]) => `${count} ${status}`)
  return parts.join(', ') || 'none'
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? '-' : `${(ms / 1000).toFixed(1)} s`
}
