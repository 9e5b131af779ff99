// What a client asks for, again until it is answered for good; each call with its answer goes into the history of its
// payment, or what it showed is kept.
import { setTimeout as sleep } from 'node:timers/promises'
import { BY_CARD, type Answer, type Client } from '#test/client.ts'
import type { Provider, ProviderName } from '#test/providers.ts'
import { keep, saidBy, type Asked, type Call, type Outside } from './history/call.ts'
import type { Random } from './random.ts'
import { note, type Created, type Kind, type Seen } from './record.ts'
import { sight, type Noun } from './sightings.ts'

export const AGAIN_MS = 250
export const LOOK_AGAIN_MS = 1000
/** What never came as a notification is read later, and a minute later for each worker that dies in the middle of reading. */
export const OUTSIDE_PATIENCE_MS = 240_000
/** A client who wants to know what came of it. */
const WAITS = { prefer: 'wait=5' }
/** What a client may be answered for good. */
const REFUSALS = new Set([402, 404, 409, 422])
/** The first failure of a message that somebody waits for is its last. */
const SEND_FAILURES = new Set(['email_send_failed', 'sms_send_failed'])

export type Story = {
  key: string
  /** Its place among all stories. */
  nth: number
  random: Random
  /** Of reads that are beside other calls. */
  reads: Random
  clients: Client[]
  /** The place of the client who asks first; when it is not answered the next one asks. */
  first: number
  processor: Provider['control']
  provider: (name: ProviderName) => Provider
  /** Where providers notify us, and what a relay of email signs with. */
  webhooks_url: string
  email_secret: string
  /** The clients of another tenant, who has nothing yet. */
  newTenant: () => Promise<Client[]>
  seen: Seen
  limit_ms: number
}

/** The same, asked first by the other client. */
export const asOther = (story: Story): Story => ({ ...story, first: story.first + 1 })

/** A payment as it was created; `key` is that of its creation, and names its history. */
export type Made = { key: string; id: string; created_at: string; processor_reference: string }

/** Answers the payment; null: it was declined, or nobody knows yet. */
export async function createPayment(
  story: Story,
  amount_minor: number,
  payment_method: string,
): Promise<Made | null> {
  const key = `${story.key}-payment`
  const body = { ...BY_CARD, idempotency_key: key, amount_minor, payment_method }
  const about = { payment: key, asked: { op: 'create', key, amount_minor } } as const
  const answer = await insist(story, '/v1/payments', body, about)
  if (answer.status === 402) {
    const id = answer.body.error.context.payment_id as string
    note(story.seen, { kind: 'payment', key, id, status: 'failed', amount_minor: null })
    return null
  }
  if (answer.status >= 400) {
    story.seen.problems.push({ problem: 'a payment was refused', key, answer: answer.text })
    return null
  }
  note(story.seen, seenOf('payment', key, answer))
  if (answer.status === 202) return null
  if (story.random.next() < 0.3)
    note(story.seen, seenOf('payment', key, await insist(story, '/v1/payments', body, about)))
  return { ...(answer.body as Made), key }
}

const GOES_ON: ReadonlySet<Kind> = new Set<Created>([
  'customer',
  'merchant',
  'recipient',
  'payment',
  'top_up',
  'payout',
  'kyc',
  'message',
])
const PATHS = { capture: 'capture', cancel: 'cancel', refund: 'refunds' }

/** Asks for a change of a payment until it is answered for good. Null: it was refused, or nobody knows yet. */
export async function act(
  story: Story,
  kind: keyof typeof PATHS,
  { id, key: payment }: Made,
  body: { idempotency_key: string; amount_minor?: number },
  { may_fail_late = false } = {},
): Promise<Answer | null> {
  const { idempotency_key: key, amount_minor = null } = body
  const answer = await insist(story, `/v1/payments/${id}/${PATHS[kind]}`, body, {
    payment,
    asked: { op: kind, key, amount_minor },
  })
  if (answer.status >= 400) return null
  const seen = seenOf(kind, key, answer)
  note(story.seen, may_fail_late ? { ...seen, status: null } : seen)
  return answer.status === 202 ? null : answer
}

export function seenOf(kind: Kind, key: string, { body }: Answer): Parameters<typeof note>[1] {
  // What was created goes on; only what was asked for then is final.
  const status = GOES_ON.has(kind) ? null : (body.status as string)
  const amount = kind === 'capture' ? body.amount_captured_minor : body.amount_minor
  return { kind, key, id: body.id as string, status, amount_minor: (amount as number | undefined) ?? null }
}

/** One read, on either API, of the payment, of its refunds, or of it in a list. Answers what came, if anything. */
export async function look(
  story: Story,
  { id, key: payment, created_at }: Made,
  how: 'payment' | 'refunds' | 'list',
): Promise<Answer | null> {
  const first = story.reads.between(0, story.clients.length - 1)
  const path = `/v1/payments/${id}`
  if (how === 'payment')
    return await ask(story, first, (client) => client.get(path), { payment, asked: { op: 'read' } })
  if (how === 'refunds')
    return await ask(story, first, (client) => client.get(`${path}/refunds?limit=100`), {
      payment,
      asked: { op: 'list refunds' },
    })
  const status = story.reads.pick(['authorized', 'captured', 'canceled'])
  const created_to = new Date(Date.parse(created_at) + 2).toISOString()
  const query = new URLSearchParams({ status, created_from: created_at, created_to, limit: '100' })
  const only = (answer: Answer): Answer =>
    answer.status === 200
      ? { ...answer, body: (answer.body as { id: string }[]).filter((each) => each.id === id) }
      : answer
  return await ask(
    story,
    first,
    async (client) => only(await client.get(`/v1/payments?${query.toString()}`)),
    { payment, asked: { op: 'list', status } },
  )
}

/** One read, on either API, of the refund that was asked for under `key`. */
export async function lookAtRefund(
  story: Story,
  { key: payment }: Made,
  { id, key }: { id: string; key: string },
): Promise<void> {
  const first = story.reads.between(0, story.clients.length - 1)
  await ask(story, first, (client) => client.get(`/v1/refunds/${id}`), {
    payment,
    asked: { op: 'read refund', key },
  })
}

/** What others do at the processor; it may refuse. */
export async function outside(
  { seen, processor }: Story,
  payment: string,
  asked: Outside,
  path: string,
  body: object,
): Promise<void> {
  keep(seen.histories, payment, { asked, api: 0, start: performance.now(), answer: null })
  await processor('POST', path, body).catch(() => undefined)
}

/** A call about a payment goes into its history; of others, what they showed is kept. */
type About = { payment: string; asked: Asked } | { shows: Noun }

/** Whether it is done or refused, or may have been done without anybody knowing, which the client has to live with. */
export function isForGood({ status, body }: Answer): boolean {
  if (status === 202) return body.status === 'unknown'
  return status === 200 || status === 201 || REFUSALS.has(status) || isSendFailure(body)
}

function isSendFailure(body: Answer['body']): boolean {
  return SEND_FAILURES.has(body?.error?.code as string)
}

/** Repeats under the same key while it is not answered, not yet (202), or told to come again (503). */
export async function insist(
  story: Story,
  path: string,
  body: unknown,
  about?: About,
  headers: Record<string, string> = WAITS,
  enough = isForGood,
): Promise<Answer> {
  const deadline = performance.now() + story.limit_ms
  // On record, and it may take its time, as when its effect is not known.
  let accepted: Answer | undefined
  for (let turn = 0; ; turn++) {
    const post = (client: Client) => client.post(path, body, headers)
    const answer = await ask(story, story.first + turn, post, about)
    if (answer !== null && enough(answer)) return answer
    if (answer !== null && answer.status !== 503) {
      if (answer.status !== 202) {
        story.seen.problems.push({
          problem: 'an answer that nobody may get',
          path,
          status: answer.status,
          answer: answer.text,
        })
        throw new Error(`${answer.status} from ${path}`)
      }
      accepted = answer
    }
    if (answer?.status === 503 && !(Number(answer.headers.get('retry-after')) > 0))
      story.seen.problems.push({ problem: 'a 503 that does not say when to come again', path })
    if (performance.now() > deadline) {
      if (accepted !== undefined) return accepted
      throw new Error(`no final answer from ${path}`)
    }
    await sleep(AGAIN_MS)
  }
}

/** Asks the client at that place, once; null when nothing comes. */
export async function ask(
  { seen, clients }: Story,
  place: number,
  send: (client: Client) => Promise<Answer>,
  about?: About,
): Promise<Answer | null> {
  seen.requests++
  const nth = place % clients.length
  const start = performance.now()
  const place_asked = { api: nth + 1, start }
  const call = about && 'asked' in about ? { asked: about.asked, ...place_asked, answer: null } : undefined
  // From the beginning: what is never answered may have an effect, too.
  if (call && about && 'asked' in about) keep(seen.histories, about.payment, call)
  const answer = await send(clients[nth]!).catch(() => null)
  const end = performance.now()
  if (call) {
    const said = saidBy(call.asked, answer)
    const answered: Call['answer'] = said && { end, said }
    Object.assign(call, { answer: answered })
  } else if (about && 'shows' in about && answer !== null)
    sight(seen.sightings, about.shows, answer, { ...place_asked, end })
  const status = answer?.status ?? 0
  const code: unknown = status >= 500 ? answer?.body?.error?.code : undefined
  const kind = typeof code === 'string' ? `${status} ${code}` : String(status)
  seen.answers.set(kind, (seen.answers.get(kind) ?? 0) + 1)
  // A caller can do nothing about it, whatever was broken: what may be over soon is 503.
  if (status === 500 && !isSendFailure(answer?.body))
    seen.problems.push({ problem: 'an API failed by its own fault', api: nth + 1, answer: answer!.text })
  if (status === 0 || (status >= 500 && !isSendFailure(answer?.body))) seen.turned_away++
  if (answer?.headers.get('idempotent-replayed') === 'true') seen.replays.push(performance.now())
  return answer
}
