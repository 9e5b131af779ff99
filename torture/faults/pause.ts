// Checks the guarantee of a pause: no provider call starts later than one second after the commit.
import { EMAIL, PROCESSOR_QUEUES, SMS } from '#core/config/providers.ts'
import type { Problem } from '#test/invariants.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import type { System } from '../system.ts'

const PAUSE_TAKES_EFFECT_MS = 1000

/** Queues whose jobs change something at a provider. Jobs of notifications only look up objects. */
export const CALLING_QUEUES = [
  ...new Set<string>([...PROCESSOR_QUEUES, ...EMAIL.queues, ...SMS.queues]),
].filter((queue) => queue !== 'notifications')
/** The first request of a call at each provider. */
const FIRST_REQUESTS = [
  ['stripe', 'POST'],
  ['twilio', 'POST'],
  ['smtp', 'MAIL'],
] as const

export async function pauseCalls({ sql }: System): Promise<void> {
  for (const queue of CALLING_QUEUES) await pauseJobs(sql, { queue, reason: 'torture' })
}

export async function resumeCalls({ sql }: System): Promise<void> {
  for (const queue of CALLING_QUEUES) await resumeJobs(sql, { queue })
}

/**
 * Finds calls that started more than a second after all queues were paused at `paused_ms`. The pause must still be
 * active.
 */
export async function callsAfterPause({ provider }: System, paused_ms: number): Promise<Problem[]> {
  const until_ms = Date.now()
  const since_ms = paused_ms + PAUSE_TAKES_EFFECT_MS
  const calls: { at_ms: number; path: string }[] = []
  for (const [name, method] of FIRST_REQUESTS)
    calls.push(...(await provider(name).requests({ method, since_ms })))
  return calls
    .filter(({ at_ms }) => at_ms < until_ms)
    .map(({ at_ms, path }) => ({
      problem: 'a provider call started more than 1 s after the pause',
      path,
      late_ms: at_ms - paused_ms,
    }))
}
