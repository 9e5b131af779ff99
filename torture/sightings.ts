// What clients were shown of payouts, top-ups, verifications and messages, and when: none of it may go backwards.
import type { Answer } from '#test/client.ts'
import type { Problem } from '#test/invariants.ts'

export const NOUNS = ['payout', 'top_up', 'kyc', 'message'] as const
export type Noun = (typeof NOUNS)[number]

const BY_HAND = { approved_by_hand: [], rejected_by_hand: [] }
const DECIDED = ['approved', 'rejected', ...Object.keys(BY_HAND)]
const LEFT = ['sent', 'delivered', 'undelivered', 'came_back']

/** From each state all that may be shown later; a decision by hand, which is also made over one of the provider, is one. */
const LATER: Record<Noun, Record<string, string[]>> = {
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
    pending: ['requires_input', 'processing', ...DECIDED],
    requires_input: ['processing', ...DECIDED],
    processing: ['requires_input', ...DECIDED],
    approved: Object.keys(BY_HAND),
    rejected: Object.keys(BY_HAND),
    ...BY_HAND,
  },
  message: {
    scheduled: ['queued', 'sending', ...LEFT, 'failed', 'unknown', 'canceled', 'suppressed'],
    queued: ['sending', ...LEFT, 'failed', 'unknown', 'canceled', 'suppressed'],
    // One that certainly was not sent waits for another attempt.
    sending: ['queued', ...LEFT, 'failed', 'unknown', 'canceled', 'suppressed'],
    unknown: [...LEFT, 'failed'],
    sent: ['delivered', 'undelivered', 'came_back', 'failed'],
    // What the provider refused it may have sent all the same.
    failed: LEFT,
    // An SMS that did not arrive may do so later; an email that did may come back.
    undelivered: ['delivered'],
    delivered: ['came_back'],
    came_back: [],
    canceled: [],
    suppressed: [],
  },
}

/** As it was shown in an answer that was asked for at `start` and came at `end`, both of `performance.now()`. */
type Sighting = { state: string; api: number; start: number; end: number }
/** By the id of what was shown. */
export type Sightings = Map<string, { noun: Noun; seen: Sighting[] }>

type Shown = { id: string; status: string; decided_by?: string | null; channel?: string | null }
/** One of several that were asked for in one request. */
type Item = { message?: Shown; error?: object }

/** Its state among those of `LATER`. */
export function stateOf({ status, decided_by, channel }: Omit<Shown, 'id'>): string {
  if (channel === 'email' && status === 'undelivered') return 'came_back'
  return decided_by === 'manual' ? `${status}_by_hand` : status
}

/** Keeps what an answer shows, if anything; of a batch, what came of each. */
export function sight(
  sightings: Sightings,
  noun: Noun,
  { status, body }: Answer,
  when: Omit<Sighting, 'state'>,
): void {
  if (status >= 300) return
  for (const each of [body].flat() as (Shown | Item)[]) {
    const shown = 'id' in each ? each : each.message
    if (shown === undefined) continue
    const of = sightings.get(shown.id) ?? { noun, seen: [] }
    of.seen.push({ state: stateOf(shown), ...when })
    sightings.set(shown.id, of)
  }
}

export function goesBackwards(noun: Noun, before: string, after: string): boolean {
  return before !== after && !LATER[noun][before]!.includes(after)
}

/** Of two answers of which one had come before the other was asked for, the later one is not behind. */
export function checkSightings(sightings: Sightings): Problem[] {
  return [...sightings].flatMap(([id, { noun, seen }]) =>
    seen.flatMap((before) =>
      seen
        .filter(({ start, state }) => start >= before.end && goesBackwards(noun, before.state, state))
        .map((after) => ({ problem: 'a state went backwards', noun, id, before, after })),
    ),
  )
}
