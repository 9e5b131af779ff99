// Records the states of payouts, top-ups, verifications and messages that clients observe. States must not go
// backwards.
import type { Answer } from '#test/client.ts'
import type { Problem } from '#test/invariants.ts'

export const RESOURCE_NAMES = ['payout', 'top_up', 'kyc', 'message'] as const
export type ResourceName = (typeof RESOURCE_NAMES)[number]

const MANUAL_DECISIONS = { approved_by_hand: [], rejected_by_hand: [] }
const FINAL_DECISIONS = ['approved', 'rejected', ...Object.keys(MANUAL_DECISIONS)]
const SENT_STATES = ['sent', 'delivered', 'undelivered', 'came_back']

/**
 * The states that may follow each state. A manual decision is a state of its own, because it may replace the provider's
 * decision.
 */
const NEXT_STATES: Record<ResourceName, Record<string, string[]>> = {
  payout: {
    pending: ['processing', 'paid', 'failed', 'canceled'],
    processing: ['paid', 'failed', 'canceled'],
    paid: ['failed'],
    failed: [],
    canceled: [],
  },
  top_up: {
    pending: ['succeeded', 'failed', 'canceled'],
    succeeded: ['failed'],
    failed: [],
    canceled: [],
  },
  kyc: {
    pending: ['requires_input', 'processing', ...FINAL_DECISIONS],
    requires_input: ['processing', ...FINAL_DECISIONS],
    processing: ['requires_input', ...FINAL_DECISIONS],
    approved: Object.keys(MANUAL_DECISIONS),
    rejected: Object.keys(MANUAL_DECISIONS),
    ...MANUAL_DECISIONS,
  },
  message: {
    scheduled: ['queued', 'sending', ...SENT_STATES, 'failed', 'unknown', 'canceled', 'suppressed'],
    queued: ['sending', ...SENT_STATES, 'failed', 'unknown', 'canceled', 'suppressed'],
    // A message that was certainly not sent waits for another attempt.
    sending: ['queued', ...SENT_STATES, 'failed', 'unknown', 'canceled', 'suppressed'],
    unknown: [...SENT_STATES, 'failed'],
    sent: ['delivered', 'undelivered', 'came_back', 'failed'],
    // The provider may have sent a message that it refused.
    failed: SENT_STATES,
    // An undelivered SMS may arrive later; a delivered email may bounce.
    undelivered: ['delivered'],
    delivered: ['came_back'],
    came_back: [],
    canceled: [],
    suppressed: [],
  },
}

/**
 * A state in an answer. `start`: when the request was sent. `end`: when the answer arrived. Clock:
 * `performance.now()`.
 */
type Observation = { state: string; api: number; start: number; end: number }
/** The observed states of each resource, by its id. */
export type Observations = Map<string, { resource: ResourceName; seen: Observation[] }>

type ResourceView = { id: string; status: string; decided_by?: string | null; channel?: string | null }
/** An item in the answer to a batch request. */
type Item = { message?: ResourceView; error?: object }

/** The key of a resource's state in `NEXT_STATES`. */
export function stateOf({ status, decided_by, channel }: Omit<ResourceView, 'id'>): string {
  if (channel === 'email' && status === 'undelivered') return 'came_back'
  return decided_by === 'manual' ? `${status}_by_hand` : status
}

/** Records the state in an answer. For a batch, records the states of all items. */
export function observe(
  observations: Observations,
  resource: ResourceName,
  { status, body }: Answer,
  when: Omit<Observation, 'state'>,
): void {
  if (status >= 300) return
  for (const each of [body].flat() as (ResourceView | Item)[]) {
    const view = 'id' in each ? each : each.message
    if (view === undefined) continue
    const of = observations.get(view.id) ?? { resource, seen: [] }
    of.seen.push({ state: stateOf(view), ...when })
    observations.set(view.id, of)
  }
}

export function goesBackwards(resource: ResourceName, before: string, after: string): boolean {
  return before !== after && !NEXT_STATES[resource][before]!.includes(after)
}

/** A request that was sent after an answer arrived must not get an earlier state than that answer. */
export function checkObservations(observations: Observations): Problem[] {
  return [...observations].flatMap(([id, { resource, seen }]) =>
    seen.flatMap((before) =>
      seen
        .filter(({ start, state }) => start >= before.end && goesBackwards(resource, before.state, state))
        .map((after) => ({ problem: 'a state went backwards', resource, id, before, after })),
    ),
  )
}
