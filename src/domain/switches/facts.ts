// The facts about the server as texts, which witnesses remember without understanding them.
import { serverFactsSchema, type ServerFacts } from './server.ts'

const DIGITS = 16
/** How the texts of the previous version begin. They were not signed. */
const PREVIOUS_VERSION = /^\d{16}:[\dA-F]{16} \{"system_identifier":/

/** Of two texts, the one with the newer facts is greater. The `H` makes it greater than one of the previous version. */
export function encodeFacts(facts: ServerFacts): string {
  const [number, heartbeat] = [facts.switch, facts.heartbeat.number].map((each) =>
    String(each).padStart(DIGITS, '0'),
  )
  const order = `${number}:H${heartbeat}:${facts.lsn}`
  return `${order} ${JSON.stringify(serverFactsSchema.parse(facts))}`
}

/** Whether the previous version has written the text, or somebody who imitates it. */
export function isFromPreviousVersion(text: string): boolean {
  return PREVIOUS_VERSION.test(text)
}

/**
 * The facts of a text of `encodeFacts`; null for any other text. No fact is compared with the clock of this process,
 * which may be wrong.
 */
export function decodeFacts(text: string): ServerFacts | null {
  try {
    return serverFactsSchema.parse(JSON.parse(text.slice(text.indexOf(' '))))
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

/** The newer of two facts, with the latest clock of both. */
export function newerFacts(one: ServerFacts | null, other: ServerFacts | null): ServerFacts | null {
  if (one === null || other === null) return one ?? other
  return isNewer(other, one) ? withLatestClock(other, one) : withLatestClock(one, other)
}

/**
 * Whether facts are of a later switch, or of a later heartbeat or position after the same switch. The heartbeat counts
 * first: a copy of the files that was written to may have a later position.
 */
function isNewer(one: ServerFacts, other: ServerFacts): boolean {
  if (one.switch !== other.switch) return one.switch > other.switch
  const heartbeats = one.heartbeat.number - other.heartbeat.number
  return heartbeats === 0 ? one.lsn > other.lsn : heartbeats > 0
}
