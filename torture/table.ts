// What each kind of fault did to the system, as one table.
import type { Problem } from '#test/invariants.ts'
import type { ClientRecord } from './record.ts'
import type { EventCounts } from './verdict/events.ts'
import type { Verdict } from './verdict/verdict.ts'

/** A fault as it was inflicted; what happened until the next one counts as its own. Clock: `performance.now()`. */
export type Inflicted = { fault: string; at: number; recovery_ms: number | null; fenced: number }

const LOST_PROBLEM =
  /lost|skipped|left lying|nothing works on it|nobody takes it|taken and not applied|did not arrive|still under way|not ended/
const DUPLICATE_PROBLEM = /twice|two |accepted for more|ended was paid/

const COLUMNS = [
  'fault', 'times', 'accepted', 'finished', 'jobs_lost', 'double_effects', 'replays_absorbed', 'fenced', 'recovery p50', 'max',
] as const // prettier-ignore

/** The table as text; the first row is what was before the first fault, the last is the sum. */
export function describe(
  inflicted: Inflicted[],
  seen: ClientRecord,
  { problems, finished }: Verdict,
): string {
  const names = ['(none)', ...new Set(inflicted.map(({ fault }) => fault)), '(unplaced)']
  const of = (at: number) => inflicted.findLast((one) => one.at <= at)?.fault ?? '(none)'
  const placed = new Map<string, string>()
  for (const { id, key, at } of seen.accepted.values()) {
    placed.set(key, of(at))
    if (!placed.has(id)) placed.set(id, of(at))
  }
  const where = (problem: Problem) =>
    Object.values(problem)
      .map((fact) => placed.get(String(fact)))
      .find((found) => found !== undefined) ?? '(unplaced)'
  const lost = problems.filter(({ problem }) => LOST_PROBLEM.test(problem)).map(where)
  const doubled = problems.filter(({ problem }) => DUPLICATE_PROBLEM.test(problem)).map(where)
  const accepted = [...seen.accepted.values()]
  const times = (list: string[], name: string) => list.filter((one) => one === name).length

  const rows = names.map((name) => {
    const own = inflicted.filter(({ fault }) => fault === name)
    const mine = accepted.filter(({ at }) => of(at) === name)
    const recoveries = own.flatMap(({ recovery_ms }) => recovery_ms ?? []).sort((a, b) => a - b)
    const counts = [
      own.length,
      mine.length,
      mine.filter(({ key }) => finished.has(key)).length,
      times(lost, name),
      times(doubled, name),
      times(seen.replays.map(of), name),
      own.reduce((sum, { fenced }) => sum + fenced, 0),
    ]
    return { name, counts, recoveries }
  })
  const sums = rows[0]!.counts.map((_, column) => rows.reduce((sum, { counts }) => sum + counts[column]!, 0))
  const all = rows.flatMap(({ recoveries }) => recoveries).sort((a, b) => a - b)
  const shown = rows.filter(({ counts }) => counts.some((count) => count > 0))
  const lines = [...shown, { name: 'all', counts: sums, recoveries: all }].map(
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

/** One line: how many of each there are beside payments and messages, by status. */
export function describeEnds({ payout, top_up, kyc }: Verdict['ends']): string {
  return `payouts: ${countsText(payout)}; top-ups: ${countsText(top_up)}; verifications: ${countsText(kyc)}`
}

/** One line: what became of messages, also of those about which nobody knew for a while. */
export function describeMessages({ ends, messages }: Verdict): string {
  const { ambiguous, reported, found, unknown, failed_and_sent } = messages
  return `messages: ${countsText(ends.message)}; ${ambiguous} were ambiguous, of which ${reported} were resolved by what the provider told, ${found} were found there, ${unknown} are named unknown; ${failed_and_sent} were sent although the provider said that it failed`
}

/** One line: how many events there were, and how often they were sent. */
export function describeEvents({
  events,
  feeds,
  endpoints,
  deliveries,
  requests,
  repeated,
}: EventCounts): string {
  return `events: ${events} in ${feeds} feeds; ${deliveries} deliveries to ${endpoints} endpoints in ${requests} requests that were read, of which ${repeated} repeated one`
}

function countsText(counts: Record<string, number>): string {
  const parts = Object.entries(counts).map(([status, count]) => `${count} ${status}`)
  return parts.join(', ') || 'none'
}

function seconds(ms: number | undefined): string {
  return ms === undefined ? '-' : `${(ms / 1000).toFixed(1)} s`
}
