// A client that follows its tenant's feed through all faults and records what it reads.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '#test/client.ts'
import type { Problem } from '#test/invariants.ts'

export type FollowedEvent = { id: string; sequence: number }

/** The problem that is found if an event gets its sequence number before all earlier events are readable. */
export const FEED_GAP = 'the feed has a gap'

export type Follower = {
  tenant_id: string
  /** The events that were read, in the order of arrival. */
  seen: FollowedEvent[]
  /** The events that the database has lost since they were read. */
  lost: FollowedEvent[]
  /** The last sequence number that was read. */
  after(): number
  problems: Problem[]
  stop(): void
}

const PAGE = 100
const WAIT_S = 10
const RETRY_DELAY_MS = 250

/** Reads the feed from each API in turn. If a read fails, the next API is read from the same position. */
export function followFeed(clients: Client[], tenant_id: string): Follower {
  const seen: FollowedEvent[] = []
  const lost: FollowedEvent[] = []
  const problems: Problem[] = []
  let after = 0
  const stopping = new AbortController()

  async function read(client: Client): Promise<boolean> {
    const path = `/v1/events?after=${after}&limit=${PAGE}`
    const answer = await client.get(path, { prefer: `wait=${WAIT_S}` }).catch(() => null)
    if (answer === null || answer.status === 503 || answer.status === 429) return false
    if (answer.status === 409 && answer.body.error.code === 'feed_restarted') {
      after = answer.body.error.context.last_sequence_before as number
      const first_lost = seen.findIndex(({ sequence }) => sequence > after)
      if (first_lost >= 0) lost.push(...seen.splice(first_lost))
      return true
    }
    if (answer.status !== 200) {
      const { status, text } = answer
      problems.push({ problem: 'an unexpected answer', path, status, answer: text })
      return false
    }
    for (const { id, type, sequence } of answer.body as (FollowedEvent & { type: string })[]) {
      if (sequence !== after + 1 && type !== 'feed.restarted')
        problems.push({ problem: FEED_GAP, tenant_id, after, sequence })
      after = sequence
      seen.push({ id, sequence })
    }
    return true
  }

  async function readAll(): Promise<void> {
    for (let attempt = 0; !stopping.signal.aborted; attempt++)
      if (!(await read(clients[attempt % clients.length]!))) await sleep(RETRY_DELAY_MS)
  }
  void readAll()
  return {
    tenant_id,
    seen,
    lost,
    after: () => after,
    problems,
    stop: () => stopping.abort(),
  }
}
