// The feeds: sequences without a gap, in the order in which things happened, and seen so by those who follow them.
import { RESOURCE_NAMES, resourceOf } from '#domain/resources.ts'
import type { Problem } from '#test/invariants.ts'
import type { Follower } from '../events/follower.ts'

const SKIPPED = 'a reader of the feed skipped an event'

/** An event as it is in the database. */
export type FeedEvent = {
  id: string
  tenant_id: string
  /** Null: it has none yet. */
  sequence: number | null
  type: string
  subject_id: string
  created_at: string
}

/** Types of which, where both happened, the first comes first. */
const ORDERS = [
  ['payment.created', 'payment.authorized', 'payment.captured'],
  ['payment.authorized', 'payment.canceled'],
  ['refund.created', 'refund.succeeded'],
  ['refund.created', 'refund.failed'],
]
/** Nouns whose first event says that there is one. */
const CREATED_TYPES = new Set(
  RESOURCE_NAMES.filter((resource) => 'created' in resourceOf(resource).events).map(
    (resource) => `${resource}.created`,
  ),
)

/** `events` are all that there are, those of a tenant by their sequences. */
export function judgeFeeds(
  events: FeedEvent[],
  followers: Pick<Follower, 'tenant_id' | 'seen' | 'after'>[],
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
    feed.forEach(({ id, sequence, subject_id }, index) => {
      const before = index === 0 ? 0 : feed[index - 1]!.sequence!
      if (sequence !== before + 1)
        problems.push({
          problem: 'the sequences of a tenant have a gap',
          tenant_id,
          before,
          sequence,
          id,
          subject_id,
        })
    })
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
      problems.push({ problem: 'a reader of the feed saw what is not there', tenant_id, id, sequence })
  for (const { id, sequence, subject_id } of feed) {
    const count = times.get(id) ?? 0
    if (count > 1)
      problems.push({ problem: 'a reader of the feed saw an event twice', tenant_id, id, sequence })
    if (count > 0) continue
    const problem = sequence! <= after() ? SKIPPED : 'a reader of the feed does not come to its end'
    problems.push({ problem, tenant_id, id, sequence, subject_id, after: after() })
  }
  return problems
}

/** What happened to one thing is in the feed in the order in which it happened. */
function outOfOrder(feed: FeedEvent[]): Problem[] {
  const problems: Problem[] = []
  const subjects = Map.groupBy(feed, ({ type, subject_id }) => `${type.split('.')[0]} ${subject_id}`)
  for (const history of subjects.values()) {
    const types = history.map(({ type }) => type)
    const contradicts =
      history.some(({ created_at }, index) => index > 0 && created_at < history[index - 1]!.created_at) ||
      [...CREATED_TYPES].some((type) => types.indexOf(type) > 0) ||
      ORDERS.some((order) => {
        const places = order.map((type) => types.indexOf(type)).filter((place) => place >= 0)
        return places.some((place, index) => index > 0 && place < places[index - 1]!)
      })
    if (contradicts)
      problems.push({
        problem: 'the feed tells what happened in another order',
        subject_id: history[0]!.subject_id,
        history: history.map(({ type, sequence, created_at }) => ({ type, sequence, created_at })),
      })
  }
  return problems
}
