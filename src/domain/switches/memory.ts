// What this process and its witnesses remember about the server of the database.
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { metrics } from '#core/metrics.ts'
import { throttle } from '#core/seldom.ts'
import { isFromPreviousVersion, newerFacts, withLatestClock } from './facts.ts'
import {
  claimedFacts,
  findWitnessName,
  keepFacts,
  NO_SIGNATURE,
  witnessProblem,
  type NamedWitness,
} from './kept-facts.ts'
import type { ServerFacts } from './server.ts'

export type Memory = {
  /** The newest facts that this process or a witness remembers; null: none. */
  newest(): ServerFacts | null
  /** Remembers what this process has checked itself. */
  remember(facts: ServerFacts): void
  /** Whether this process has checked the server itself within the last seconds. */
  isRecent(): boolean
  /** Whether that is so, or each witness answered when it was last asked. */
  haveAnswered(): boolean
  /** Which witness could not be used when it was last asked, and why. */
  problems(): string[]
  /**
   * Stores facts at the witness (null: stores nothing) and asks it. Returns the facts that it keeps; null: none;
   * undefined: it cannot be used. Rejects only if the database fails.
   */
  exchange(witness: NamedWitness, facts: ServerFacts | null): Promise<ServerFacts | null | undefined>
  /** Asks all witnesses; what they answered before no longer counts, except if one is silent now. */
  askAgain(): Promise<void>
}

/** Other processes may have seen more if this one has checked nothing for longer. */
const RECENT_MS = 5_000
/** The part of an invalid text that is logged, as evidence. */
const LOGGED_LENGTH = 1_000

/**
 * How long a text without a valid signature that names a later switch is kept. It is replaced afterwards: otherwise one
 * such text would disable the witness for good.
 */
const LATER_SWITCH_MS = 3_600_000

/** `since`: when this process first read such a text after a valid one, by `performance.now()`. */
type InvalidText = { text: string; since: number }

/** Whether the text claims a switch after these facts, and is to be kept. */
function isKept({ text, since }: InvalidText, facts: ServerFacts): boolean {
  const claimed = claimedFacts(text)
  return claimed !== null && claimed.switch > facts.switch && performance.now() < since + LATER_SWITCH_MS
}

/** `encryptionKeys`: the present keys of ENCRYPTION_KEY. It is called only if there are witnesses. */
export function createMemory(
  sql: Sql,
  log: Log,
  { witnesses, encryptionKeys }: { witnesses: readonly NamedWitness[]; encryptionKeys: () => string },
): Memory {
  let name: string | undefined
  let own: ServerFacts | null = null
  let checked_at = -Infinity
  /** The newest facts that each witness has answered with. */
  const answers = new Map<NamedWitness, ServerFacts | null>()
  /** Why each silent witness cannot be used. */
  const silent = new Map<NamedWitness, string>(witnesses.map((each) => [each, 'it has not answered yet']))
  const invalid = new Map<NamedWitness, InvalidText>()
  const warn = throttle(
    (suppressed, text: string) =>
      log.error(
        { text: text.slice(0, LOGGED_LENGTH), suppressed },
        'a witness of the database has a text without a valid signature: somebody has changed it, or the processes have different keys in ENCRYPTION_KEY. It counts as silent, and the text is replaced. If it names a later switch than the database has, it is replaced after an hour: before, add its key to ENCRYPTION_KEY, or remove it',
      ),
    60_000,
  )

  const newest = () => [...answers.values()].reduce(newerFacts, own)
  const isRecent = () => performance.now() - checked_at < RECENT_MS

  async function ask(
    asked: NamedWitness,
    facts: ServerFacts | null,
  ): Promise<ServerFacts | null | undefined> {
    name ??= await findWitnessName(sql)
    const entry = { witness: asked.witness, name, encryption_keys: encryptionKeys() }
    const before = invalid.get(asked)
    const replaced = before && facts && !isKept(before, facts) ? before.text : undefined
    let problem: string | undefined
    const kept = await keepFacts(entry, facts, replaced).catch((error: unknown) => {
      problem = witnessProblem(error)
    })
    if (problem === undefined && kept?.invalid === undefined) invalid.delete(asked)
    else if (kept?.invalid !== undefined) {
      problem = NO_SIGNATURE
      const found = { text: kept.invalid, since: before?.since ?? performance.now() }
      invalid.set(asked, found)
      if (!isFromPreviousVersion(found.text)) warn(found.text)
    }
    metrics.witnessUsable.set({ witness: asked.called }, problem === undefined ? 1 : 0)
    if (problem === undefined) silent.delete(asked)
    else silent.set(asked, problem)
    return problem === undefined ? kept?.facts : undefined
  }

  return {
    newest,
    remember(facts) {
      own = newerFacts(own, facts)
      checked_at = performance.now()
    },
    isRecent,
    haveAnswered: () => isRecent() || silent.size === 0,
    problems: () => Array.from(silent, ([{ called }, problem]) => `${called}: ${problem}`),
    async exchange(witness, facts) {
      const answer = await ask(witness, facts && withLatestClock(facts, newest()))
      if (answer != null) answers.set(witness, newerFacts(answers.get(witness) ?? null, answer))
      return answer
    },
    async askAgain() {
      await Promise.all(
        witnesses.map(async (witness) => {
          const answer = await ask(witness, null)
          if (answer !== undefined) answers.set(witness, answer)
        }),
      )
    },
  }
}
