// The mixed load: stories that are the same for the same seed, told by clients that repeat what got no final answer.
import { setTimeout as sleep } from 'node:timers/promises'
import { BY_CARD, type Answer, type Client } from '#test/client.ts'
import { seeded, type Random } from './random.ts'
import { note, nothingSeen, type Kind, type Seen } from './record.ts'

/** Some 230 requests a second. */
export const STORIES_PER_S = 60
/** With more under way new ones wait. */
const MOST_AT_ONCE = 900
const PATIENCE_MS = 90_000
const AGAIN_MS = 250
/** What a client may be answered for good. */
const REFUSALS = new Set([402, 404, 409, 422])

export type Load = {
  seen: Seen
  /** Stories under way. */
  open(): number
  /** How often a client was answered 5xx, or not at all. */
  turnedAway(): number
  /** Begins no more stories; resolves when those under way have ended. */
  stop(): Promise<void>
  /** One payment, created and captured on that API; rejects when it is not within `limit_ms`. */
  probe(client: number, limit_ms: number): Promise<void>
}

type Story = { key: string; random: Random; client: Client; other: Client; seen: Seen; limit_ms: number }

/** Begins `stories_per_s` stories a second until it is stopped. */
export function startLoad(clients: Client[], seed: number, stories_per_s: number): Load {
  const seen = nothingSeen()
  const open = new Set<Promise<void>>()
  const began = performance.now()
  const stopping = new AbortController()
  let probes = 0

  function storyOf(key: string, part: number, first: number): Story {
    const client = clients[first % clients.length]!
    const other = clients[(first + 1) % clients.length]!
    return { key, random: seeded(seed, part), client, other, seen, limit_ms: PATIENCE_MS }
  }
  async function begin(): Promise<void> {
    for (let index = 0; !stopping.signal.aborted; index++) {
      const due = began + (index * 1000) / stories_per_s
      while (!stopping.signal.aborted && (performance.now() < due || open.size >= MOST_AT_ONCE))
        await sleep(5)
      if (stopping.signal.aborted) return
      const told = tell(storyOf(`story-${index}`, index, index)).catch((error: unknown) => {
        seen.problems.push({ problem: 'a client gave up', story: index, error: String(error) })
      })
      open.add(told)
      void told.finally(() => open.delete(told))
    }
  }
  const beginning = begin()

  return {
    seen,
    open: () => open.size,
    turnedAway: () =>
      Array.from(seen.answers).reduce(
        (sum, [status, count]) => sum + (status === 0 || status >= 500 ? count : 0),
        0,
      ),
    async stop() {
      stopping.abort()
      await beginning
      await Promise.all(open)
    },
    async probe(client, limit_ms) {
      const story = { ...storyOf(`probe-${++probes}`, -probes, client), limit_ms }
      story.other = story.client
      const id = await createPayment(story, 1000, 'pm_card_visa')
      if (id === null) throw new Error('the probe was refused')
      if (!(await act(story, 'capture', id, { idempotency_key: `${story.key}-capture` })))
        throw new Error('the capture of the probe was refused, or nobody knows')
    },
  }
}

async function tell(story: Story): Promise<void> {
  const { random } = story
  const kind = random.next()
  if (kind < 0.6) return await customerStory(story)
  const amount_minor = random.between(200, 5000)
  if (kind < 0.62) return void (await createPayment(story, amount_minor, 'pm_card_chargeDeclined'))
  const id = await createPayment(story, amount_minor, 'pm_card_visa')
  if (id === null || kind < 0.64) return
  const key = `${story.key}-capture`
  if (kind < 0.69) {
    const body = { idempotency_key: `${story.key}-cancel`, reason: 'requested_by_customer' }
    return void (await act(story, 'cancel', id, body))
  }
  if (kind < 0.75) {
    // Who comes first wins; the others are refused.
    await Promise.all([
      act(story, 'capture', id, { idempotency_key: `${key}-a` }),
      act(story, 'capture', id, { idempotency_key: `${key}-b`, amount_minor: 100 }),
      act(story, 'capture', id, { idempotency_key: `${key}-c` }),
      act(story, 'cancel', id, { idempotency_key: `${story.key}-cancel` }),
    ])
    return
  }
  const captured_minor = random.next() < 0.3 ? random.between(100, amount_minor) : amount_minor
  const body = {
    idempotency_key: key,
    ...(captured_minor !== amount_minor && { amount_minor: captured_minor }),
  }
  const twice = random.next() < 0.2
  const [captured] = await Promise.all([
    act(story, 'capture', id, body),
    twice && act({ ...story, client: story.other, other: story.client }, 'capture', id, body),
  ])
  if (!captured || random.next() < 0.4) return
  // Each is more than half: one wins.
  const refund_minor = Math.floor(captured_minor / 2) + 1
  const racing = random.next() < 0.5
  await Promise.all(
    (racing ? [1, 2, 3] : [1]).map((nth) =>
      act(story, 'refund', id, { idempotency_key: `${story.key}-refund-${nth}`, amount_minor: refund_minor }),
    ),
  )
}

async function customerStory(story: Story): Promise<void> {
  const body = { idempotency_key: `${story.key}-customer`, name: 'Ada', email: `${story.key}@example.com` }
  const path = '/v1/customers'
  const created = await insist(story, path, body)
  note(story.seen, seenOf('customer', body.idempotency_key, created))
  const again = await insist({ ...story, client: story.other, other: story.client }, path, body)
  note(story.seen, seenOf('customer', body.idempotency_key, again))
  await ask(story, () => story.client.get(`${path}/${created.body.id as string}`))
  await ask(story, () => story.other.get(`${path}?email=${encodeURIComponent(body.email)}`))
}

/** Answers its id; null: it was declined, or nobody knows yet. */
async function createPayment(
  story: Story,
  amount_minor: number,
  payment_method: string,
): Promise<string | null> {
  const idempotency_key = `${story.key}-payment`
  const body = { ...BY_CARD, idempotency_key, amount_minor, payment_method }
  const answer = await insist(story, '/v1/payments', body)
  if (answer.status === 402) {
    const id = answer.body.error.context.payment_id as string
    note(story.seen, { kind: 'payment', key: idempotency_key, id, status: 'failed', amount_minor: null })
    return null
  }
  if (answer.status >= 400) {
    story.seen.problems.push({ problem: 'a payment was refused', key: idempotency_key, answer: answer.text })
    return null
  }
  note(story.seen, seenOf('payment', idempotency_key, answer))
  if (answer.status === 202) return null
  if (story.random.next() < 0.3)
    note(story.seen, seenOf('payment', idempotency_key, await insist(story, '/v1/payments', body)))
  return answer.body.id as string
}

const PATHS = { capture: 'capture', cancel: 'cancel', refund: 'refunds' }

/** Asks for a change of a payment until it is answered for good; false: it was refused, or nobody knows yet. */
async function act(
  story: Story,
  kind: keyof typeof PATHS,
  id: string,
  body: { idempotency_key: string; amount_minor?: number },
): Promise<boolean> {
  const answer = await insist(story, `/v1/payments/${id}/${PATHS[kind]}`, body)
  if (answer.status >= 400) return false
  note(story.seen, seenOf(kind, body.idempotency_key, answer))
  return answer.status !== 202
}

function seenOf(kind: Kind, key: string, { body }: Answer): Parameters<typeof note>[1] {
  // A payment goes on after it was created; only what was asked for is final.
  const status = kind === 'customer' || kind === 'payment' ? null : (body.status as string)
  const amount = kind === 'capture' ? body.amount_captured_minor : body.amount_minor
  return { kind, key, id: body.id as string, status, amount_minor: (amount as number | undefined) ?? null }
}

/** Repeats under the same key while it is not answered, not yet (202), or told to come again (503). */
async function insist(story: Story, path: string, body: unknown): Promise<Answer> {
  const deadline = performance.now() + story.limit_ms
  for (let turn = 0; ; turn++) {
    const client = turn % 2 === 0 ? story.client : story.other
    const answer = await ask(story, () => client.post(path, body, { prefer: 'wait=5' }))
    if (answer !== null && answer.status !== 503) {
      const final = answer.status === 200 || answer.status === 201
      if (final || REFUSALS.has(answer.status)) return answer
      if (answer.status !== 202) {
        story.seen.problems.push({
          problem: 'an answer that nobody may get',
          path,
          status: answer.status,
          answer: answer.text,
        })
        throw new Error(`${answer.status} from ${path}`)
      }
      // On record, and it may take its time, as when its effect is not known.
      if (performance.now() > deadline) return answer
    }
    if (answer?.status === 503 && !(Number(answer.headers.get('retry-after')) > 0))
      story.seen.problems.push({ problem: 'a 503 that does not say when to come again', path })
    if (performance.now() > deadline) throw new Error(`no final answer from ${path}`)
    await sleep(AGAIN_MS)
  }
}

async function ask({ seen }: Story, send: () => Promise<Answer>): Promise<Answer | null> {
  seen.requests++
  const answer = await send().catch(() => null)
  const status = answer?.status ?? 0
  seen.answers.set(status, (seen.answers.get(status) ?? 0) + 1)
  if (answer?.headers.get('idempotent-replayed') === 'true') seen.replays.push(performance.now())
  return answer
}
