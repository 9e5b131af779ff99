// Judges the feeds: sequences without gaps except those of restarts, in the order of the events, and read completely
// by the followers.
import { RESOURCE_NAMES, resourceOf } from '#domain/resources.ts'
import type { Problem } from '#test/invariants.ts'
import type { Follower } from '../events/follower.ts'

/** The problem that is found if a feed continues with sequences that it has given before. */
export const SEQUENCE_REUSED = 'a sequence names two events'
const SKIPPED = 'a reader of the feed skipped an event'

/** A row of `events`. */
export type FeedEvent = {
  id: string
  tenant_id: string
  /** Null: not assigned yet. */
  sequence: number | null
  type: string
  subject_id: string
  created_at: string
}

/** Event types in their required order. */
const ORDERS = [
  ['payment.created', 'payment.authorized', 'payment.captured'],
  ['payment.authorized', 'payment.canceled'],
  ['refund.created', 'refund.succeeded'],
  ['refund.created', 'refund.failed'],
]
/** The types `<resource>.created`. An event of such a type must be the first of its resource. */
const CREATED_TYPES = new Set(
  RESOURCE_NAMES.filter((resource) => 'created' in resourceOf(resource).events).map(
    (resource) => `${resource}.created`,
  ),
)

/** `events`: all events, ordered by sequence within each tenant. */
export function judgeFeeds(
  events: FeedEvent[],
  followers: Pick<Follower, 'tenant_id' | 'seen' | 'lost' | 'after'>[],
): Problem[] {
  const problems: Problem[] = []
  const unsequenced = events.filter(({ sequence }) => sequence === null)
  for (const { id, tenant_id, subject_id } of unsequenced)
    problems.push({ problem: 'an event is not in the feed', id, tenant_id, subject_id })
  const feeds = Map.groupBy(
    events.filter(({ sequence }) => sequence !== null),
    ({ tenant_id }) => tenant_id,
  )
  for (const [tenant_id, feed] of feeds)
    feed.forEach(({ id, type, sequence, subject_id }, index) => {
      const before = index === 0 ? 0 : feed[index - 1]!.sequence!
      // The audit compares the gap of a restart with its row.
      if (sequence !== before + 1 && type !== 'feed.restarted')
        problems.push({
          problem: 'the sequences of a tenant have a gap',
          tenant_id,
          before,
          sequence,
          id,
          subject_id,
        })
    })
  for (const { tenant_id, lost } of followers) {
    const ids = new Map(feeds.get(tenant_id)?.map(({ id, sequence }) => [sequence, id]))
    for (const { id, sequence } of lost)
      if ((ids.get(sequence) ?? id) !== id)
        problems.push({
          problem: SEQUENCE_REUSED,
          tenant_id,
          sequence,
          id,
          other: ids.get(sequence),
        })
  }
  for (const follower of followers)
    problems.push(...judgeFollower(feeds.get(follower.tenant_id) ?? [], follower))
  return [...problems, ...[...feeds.values()].flatMap(outOfOrder)]
}

function judgeFollower(
  feed: FeedEvent[],
  { tenant_id, seen, after }: Pick<Follower, 'tenant_id' | 'seen' | 'after'>,
): Problem[] {
  const problems: Problem[] = []
  const times = new Map<string, number>()
  for (const { id } of seen) times.set(id, (times.get(id) ?? 0) + 1)
  const sequences = new Map(feed.map(({ id, sequence }) => [id, sequence]))
  for (const { id, sequence } of seen)
    if (sequences.get(id) !== sequence)
      problems.push({ problem: 'a reader of the feed saw an unknown event', tenant_id, id, sequence })
  for (const { id, sequence, subject_id } of feed) {
    const count = times.get(id) ?? 0
    if (count > 1)
      problems.push({ problem: 'a reader of the feed saw an event twice', tenant_id, id, sequence })
    if (count > 0) continue
    const problem = sequence! <= after() ? SKIPPED : 'a reader of the feed did not reach its end'
    problems.push({ problem, tenant_id, id, sequence, subject_id, after: after() })
  }
  return problems
}

/** The events of one resource must be in the feed in the order in which they happened. */
function outOfOrder(feed: FeedEvent[]): Problem[] {
  const problems: Problem[] = []
  const subjects = Map.groupBy(feed, ({ type, subject_id }) => `${type.split('.')[0]} ${subject_id}`)
  for (const history of subjects.values()) {
    const types = history.map(({ type }) => type)
    const contradicts =
      history.some(({ created_at }, index) => index > 0 && created_at < history[index - 1]!.created_at) ||
      [...CREATED_TYPES].some((type) => types.indexOf(type) > 0) ||
      ORDERS.some((order) => {
        const positions = order.map((type) => types.indexOf(type)).filter((position) => position >= 0)
        return positions.some((position, index) => index > 0 && position < positions[index - 1]!)
      })
    if (contradicts)
      problems.push({
        problem: 'the feed has events in the wrong order',
        subject_id: history[0]!.subject_id,
        history: history.map(({ type, sequence, created_at }) => ({ type, sequence, created_at })),
      })
  }
  return problems
}
