// The promise of a pause: a second after it was committed no provider call starts.
import { EMAIL, PROCESSOR_QUEUES, SMS } from '#core/config/providers.ts'
import type { Problem } from '#test/invariants.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import type { System } from '../system.ts'

const PAUSE_TAKES_EFFECT_MS = 1000

/** The queues whose jobs ask a provider to do something; notifications only look. */
export const CALLING_QUEUES = [
  ...new Set<string>([...PROCESSOR_QUEUES, ...EMAIL.queues, ...SMS.queues]),
].filter((queue) => queue !== 'notifications')
/** How a call begins at each of them. */
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

/** The calls that began too late for a pause of them all at `paused_ms`, which still holds. */
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
