// The facts about the server as texts, which witnesses keep without understanding them.
import { z } from 'zod'
import type { ServerFacts } from './server.ts'

const factsSchema = z.object({
  system_identifier: z.string().regex(/^\d+$/),
  timeline: z.int(),
  lsn: z.string().regex(/^[0-9A-F]{16}$/),
  clock: z.iso.datetime({ offset: true }),
  // Texts of the previous version have none.
  heartbeat: z
    .object({ number: z.int(), at: z.iso.datetime({ offset: true }) })
    .nullable()
    .default(null),
  audit: z.object({ seq: z.int(), hash: z.string().regex(/^[0-9a-f]{64}$/) }).nullable(),
  seal: z.uuid().nullable(),
  switch: z.int(),
})
const DIGITS = 16

const DAY_MS = 24 * 3_600_000

/** Whether facts can be true. Others, which somebody else has stored, would stop the system or rewind its feeds. */
function arePossible({ timeline, switch: number, clock }: ServerFacts): boolean {
  const is_future = Date.parse(clock) > Date.now() + DAY_MS
  return timeline > 0 && timeline < 2 ** 31 && number >= 0 && number < 1_000_000 && !is_future
}

/** Of two texts, the one with the newer facts is greater. The `H` makes it greater than one of the previous version. */
export function encodeFacts(facts: ServerFacts): string {
  const [number, heartbeat] = [facts.switch, facts.heartbeat?.number ?? 0].map((each) =>
    String(each).padStart(DIGITS, '0'),
  )
  const order = `${number}:H${heartbeat}:${facts.lsn}`
  return `${order} ${JSON.stringify(factsSchema.parse(facts))}`
}

/** The facts of a text of `encodeFacts`; null for any other text, and for facts that cannot be true. */
export function decodeFacts(text: string | null): ServerFacts | null {
  try {
    const facts = factsSchema.parse(JSON.parse(text?.slice(text.indexOf(' ')) ?? ''))
    return arePossible(facts) ? facts : null
  } catch {
    return null
  }
}

/**
 * The facts with the latest clock of both: the sequences of feeds continue at a reading of the clock, so its latest
 * reading is remembered even if the clock was set back.
 */
export function withLatestClock(facts: ServerFacts, other: ServerFacts | null): ServerFacts {
  return other !== null && Date.parse(other.clock) > Date.parse(facts.clock)
    ? { ...facts, clock: other.clock }
    : facts
}

/**
 * Whether facts are of a later switch, or of a later heartbeat or position after the same switch. The heartbeat counts
 * first: a copy of the files that was written to may have a later position.
 */
export function isNewer(one: ServerFacts, other: ServerFacts | null): boolean {
  if (other === null || one.switch !== other.switch) return one.switch > (other?.switch ?? -1)
  const beats = (one.heartbeat?.number ?? -1) - (other.heartbeat?.number ?? -1)
  return beats === 0 ? one.lsn > other.lsn : beats > 0
}
