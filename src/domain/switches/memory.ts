// What this process and witnesses remember about the server of the database.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import type { Witness } from '#core/witness-place.ts'
import { decodeFacts, encodeFacts, isNewer, withLatestClock } from './facts.ts'
import { findWitnessName } from './newest.ts'
import type { ServerFacts } from './server.ts'

export type Memory = {
  /** The newest facts that this process or a witness knows; null: none. */
  newest(): ServerFacts | null
  /** Whether this process has checked the server itself within the last seconds. */
  isRecent(): boolean
  /** Whether that is so, or each witness answered when it was last asked. */
  isComplete(): boolean
  /** Tells facts to the witness (null: tells nothing) and asks it. Rejects only if the database fails. */
  exchange(witness: Witness, facts: ServerFacts | null): Promise<void>
}

/** Other processes may have seen more if this one has checked nothing for longer. */
const RECENT_MS = 5_000

/** Reads facts from the witnesses, and replaces texts there that are no facts. */
export function createMemory(sql: Sql, log: Log, witnesses: readonly Witness[]): Memory {
  let name: string | undefined
  let newest: ServerFacts | null = null
  let checked_at = -Infinity
  const answered = new Set<Witness>()
  const unreadable = new Map<Witness, string>()
  const warn = throttle(
    (suppressed) =>
      log.error(
        { suppressed },
        'a witness of the database has a text that is no fact about it: replacing it',
      ),
    60_000,
  )

  const isRecent = () => performance.now() - checked_at < RECENT_MS

  function remember(facts: ServerFacts): void {
    if (isNewer(facts, newest)) newest = withLatestClock(facts, newest)
  }

  /** The facts of the answer. A text that is no fact counts as no answer: somebody else has written it. */
  function read(witness: Witness, text: string | null): void {
    const facts = decodeFacts(text)
    if (text !== null && facts === null) {
      warn()
      unreadable.set(witness, text)
      answered.delete(witness)
      return
    }
    answered.add(witness)
    if (facts !== null) remember(facts)
  }

  return {
    newest: () => newest,
    isRecent,
    isComplete: () => isRecent() || witnesses.every((witness) => answered.has(witness)),
    async exchange(witness, facts) {
      name ??= await findWitnessName(sql)
      const known = facts && withLatestClock(facts, newest)
      if (known !== null) {
        remember(known)
        checked_at = performance.now()
      }
      const text = known && encodeFacts(known)
      await witness.keepNewest(name, text, unreadable.get(witness)).then(
        (kept) => read(witness, kept),
        () => answered.delete(witness),
      )
    },
  }
}
