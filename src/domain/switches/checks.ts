// Checks the server of the database against what this process and its witnesses remember.
import { requireVariable, usesRedis, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import { openWitnessPlace } from '#core/witness-place.ts'
import type { Witness } from '#core/witness.ts'
import type { NamedWitness } from './kept-facts.ts'
import { createMemory } from './memory.ts'
import { checkServer, type CheckedServer } from './server.ts'

export type ServerChecks = {
  /** Checks the server now. Undefined: it is too early to repeat the last check, which was `unconfirmed`. */
  check(signal: AbortSignal): Promise<CheckedServer | undefined>
  /**
   * Remembers what was checked, stores it at the witnesses, and asks them. Returns false while the database is sealed
   * and no witness has stored the seal: the next server would be recorded as a restore, not as a planned move.
   */
  exchange(checked: CheckedServer): Promise<boolean>
  /** Which witness could not be used when this process last asked it, and why. */
  witnessProblems(): string[]
}

/** How long a process waits for silent witnesses after a start of the server. */
const WITNESS_TIMEOUT_MS = 30_000
/** Usually, the witnesses answer the second check after a start of the server. */
const WARN_OF_WAIT_AFTER_MS = 3_000
/** After this time, a check is repeated that found the server behind a witness although it had not started. */
const CONFIRM_AFTER_MS = 1_000
/** A process that does not write to the place reads it after this time, to know whether it can be used. */
const READ_PLACE_AFTER_MS = 30_000

/**
 * The witnesses are Redis (`queue`) and the place at WITNESS_URL. The place is written at most once a second by all
 * processes together, and once by each for a seal. It is only read by each process at its start, every 30 s, and
 * without Redis. `queue` null: the process asks no witness, because it does not have the key that signs what they
 * remember.
 */
export function createServerChecks(
  config: Config,
  { sql, log, queue }: { sql: Sql; log: Log; queue: Witness | null },
): ServerChecks {
  const { SYNCHRONOUS_STANDBY: is_synchronous, WITNESS_URL } = config
  const redis: NamedWitness | null =
    queue === null || !usesRedis(config) ? null : { called: 'Redis', witness: queue }
  const place: NamedWitness | null =
    queue === null || WITNESS_URL === undefined
      ? null
      : { called: 'WITNESS_URL', witness: openWitnessPlace(WITNESS_URL, log) }
  const memory = createMemory(sql, log, {
    witnesses: [redis, place].filter((witness) => witness !== null),
    encryptionKeys: () => requireVariable(config, 'ENCRYPTION_KEY'),
  })
  const warnOfWait = throttle(
    (suppressed) =>
      log.warn(
        { suppressed },
        'the database has started, and Redis or WITNESS_URL must answer, or another process must check it: accepts and does nothing until then',
      ),
    10_000,
  )
  const warnOfDoubt = throttle(
    (suppressed) =>
      log.warn(
        { suppressed },
        'the database is behind what a witness remembers, although its server has not started: checking again',
      ),
    10_000,
  )
  /** The start of the server for which silent witnesses are waited for. */
  let waiting: { started_at: string; since: number } | undefined
  let unconfirmed_since: number | undefined
  let place_asked_at = -Infinity
  /** The seals that the place, and any witness, have answered with. */
  let seal_at_place: string | null = null
  let kept_seal: string | null = null

  async function exchange(checked?: CheckedServer): Promise<boolean> {
    const is_in_use = checked !== undefined && checked.state !== 'superseded'
    if (is_in_use) memory.remember(checked)
    const seal = is_in_use ? checked.seal : null
    const now = performance.now()
    // No check raises the heartbeat of a sealed database. At the next server, the stored seal proves that nothing was
    // lost.
    const stores_in_place =
      is_in_use && (checked.raised_heartbeat || (seal !== null && seal !== seal_at_place))
    const asks_place =
      !is_in_use || stores_in_place || redis === null || now > place_asked_at + READ_PLACE_AFTER_MS
    if (asks_place) place_asked_at = now
    const [at_redis, at_place] = await Promise.all([
      redis === null ? null : memory.exchange(redis, is_in_use ? checked : null),
      place === null || !asks_place ? null : memory.exchange(place, stores_in_place ? checked : null),
    ])
    if (at_place != null) seal_at_place = at_place.seal
    if (at_redis?.seal === seal || seal_at_place === seal) kept_seal = seal
    return seal === null || seal === kept_seal || (redis === null && place === null)
  }

  async function compare(signal: AbortSignal): Promise<CheckedServer> {
    const is_repeated = unconfirmed_since !== undefined
    if (is_repeated) await memory.askAgain()
    else if (!memory.isRecent()) await exchange()
    const waited_for =
      waiting !== undefined && performance.now() > waiting.since + WITNESS_TIMEOUT_MS
        ? waiting.started_at
        : null
    let checked: CheckedServer
    do {
      const all_answered = queue === null ? null : memory.haveAnswered()
      checked = await checkServer(sql, memory.newest(), {
        is_synchronous,
        all_answered,
        waited_for,
        is_repeated,
      })
    } while (checked.state === 'recording' && !signal.aborted)
    return checked
  }

  return {
    exchange,
    witnessProblems: () => memory.problems(),
    async check(signal) {
      if (unconfirmed_since !== undefined && performance.now() < unconfirmed_since + CONFIRM_AFTER_MS)
        return undefined
      const checked = await compare(signal)
      const { state, started_at } = checked
      unconfirmed_since = state === 'unconfirmed' ? performance.now() : undefined
      if (state !== 'unchecked') waiting = undefined
      else if (waiting?.started_at !== started_at) waiting = { started_at, since: performance.now() }
      else if (performance.now() > waiting.since + WARN_OF_WAIT_AFTER_MS) warnOfWait()
      if (state === 'unconfirmed') warnOfDoubt()
      return checked
    },
  }
}
