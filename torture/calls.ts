// What a client asks for, again until it is answered for good; each call with its answer goes into the history of its
// payment, or what it showed is kept.
import { setTimeout as sleep } from 'node:timers/promises'
import { BY_CARD, type Answer, type Client } from '#test/client.ts'
import type { Provider, ProviderName } from '#test/providers.ts'
import { recordCall, resultOf, type Operation, type Call, type ExternalChange } from './history/call.ts'
import type { Random } from './random.ts'
import { recordAcceptance, type Created, type Kind, type ClientRecord } from './record.ts'
import { observe, type ResourceName } from './observations.ts'

export const RETRY_DELAY_MS = 250
export const READ_INTERVAL_MS = 1000
/** What never came as a notification is read later, and a minute later for each worker that dies in the middle of reading. */
export const EXTERNAL_CHANGE_TIMEOUT_MS = 240_000
/** A client who wants to know what came of it. */
const PREFER_WAIT = { prefer: 'wait=5' }
/** What a client may be answered for good. */
const REFUSALS = new Set([402, 404, 409, 422])
/** The first failure of a message that somebody waits for is its last. */
const SEND_FAILURES = new Set(['email_send_failed', 'sms_send_failed'])

export type Scenario = {
  key: string
  /** Its place among all stories. */
  nth: number
  random: Random
  /** Of reads that are beside other calls. */
  reads: Random
  clients: Client[]
  /** The place of the client who asks first; when it is not answered the next one asks. */
  first_client: number
  processor: Provider['control']
  provider: (name: ProviderName) => Provider
  /** Where providers notify us, and what a relay of email signs with. */
  webhooks_url: string
  email_secret: string
  /** The clients of another tenant, who has nothing yet. */
  newTenant: () => Promise<Client[]>
  seen: ClientRecord
  limit_ms: number
}

/** The same, asked first by the other client. */
export const fromOtherClient = (scenario: Scenario): Scenario => ({
  ...scenario,
  first_client: scenario.first_client + 1,
})

/** A payment as it was created; `key` is that of its creation, and names its history. */
export type CreatedPayment = { key: string; id: string; created_at: string; processor_reference: string }

/** Answers the payment; null: it was declined, or nobody knows yet. */
export async function createPayment(
  scenario: Scenario,
  amount_minor: number,
  payment_method: string,
): Promise<CreatedPayment | null> {
  const key = `${scenario.key}-payment`
  const body = { ...BY_CARD, idempotency_key: key, amount_minor, payment_method }
  const subject = { payment: key, operation: { op: 'create', key, amount_minor } } as const
  const answer = await postUntilFinal(scenario, '/v1/payments', body, subject)
  if (answer.status === 402) {
    const id = answer.body.error.context.payment_id as string
    recordAcceptance(scenario.seen, { kind: 'payment', key, id, status: 'failed', amount_minor: null })
    return null
  }
  if (answer.status >= 400) {
    scenario.seen.problems.push({ problem: 'a payment was refused', key, answer: answer.text })
    return null
  }
  recordAcceptance(scenario.seen, acceptanceOf('payment', key, answer))
  if (answer.status === 202) return null
  if (scenario.random.next() < 0.3)
    recordAcceptance(
      scenario.seen,
      acceptanceOf('payment', key, await postUntilFinal(scenario, '/v1/payments', body, subject)),
    )
  return { ...(answer.body as CreatedPayment), key }
}

const NOT_FINAL_WHEN_CREATED: ReadonlySet<Kind> = new Set<Created>([
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
export async function changePayment(
  scenario: Scenario,
  kind: keyof typeof PATHS,
  { id, key: payment }: CreatedPayment,
  body: { idempotency_key: string; amount_minor?: number },
  { may_fail_late = false } = {},
): Promise<Answer | null> {
  const { idempotency_key: key, amount_minor = null } = body
  const answer = await postUntilFinal(scenario, `/v1/payments/${id}/${PATHS[kind]}`, body, {
    payment,
    operation: { op: kind, key, amount_minor },
  })
  if (answer.status >= 400) return null
  const seen = acceptanceOf(kind, key, answer)
  recordAcceptance(scenario.seen, may_fail_late ? { ...seen, status: null } : seen)
  return answer.status === 202 ? null : answer
}

export function acceptanceOf(
  kind: Kind,
  key: string,
  { body }: Answer,
): Parameters<typeof recordAcceptance>[1] {
  // What was created goes on; only what was asked for then is final.
  const status = NOT_FINAL_WHEN_CREATED.has(kind) ? null : (body.status as string)
  const amount = kind === 'capture' ? body.amount_captured_minor : body.amount_minor
  return { kind, key, id: body.id as string, status, amount_minor: (amount as number | undefined) ?? null }
}

/** One read, on either API, of the payment, of its refunds, or of it in a list. Answers what came, if anything. */
export async function readPayment(
  scenario: Scenario,
  { id, key: payment, created_at }: CreatedPayment,
  how: 'payment' | 'refunds' | 'list',
): Promise<Answer | null> {
  const first_client = scenario.reads.between(0, scenario.clients.length - 1)
  const path = `/v1/payments/${id}`
  if (how === 'payment')
    return await sendOnce(scenario, first_client, (client) => client.get(path), {
      payment,
      operation: { op: 'read' },
    })
  if (how === 'refunds')
    return await sendOnce(scenario, first_client, (client) => client.get(`${path}/refunds?limit=100`), {
      payment,
      operation: { op: 'list refunds' },
    })
  const status = scenario.reads.pick(['authorized', 'captured', 'canceled'])
  const created_to = new Date(Date.parse(created_at) + 2).toISOString()
  const query = new URLSearchParams({ status, created_from: created_at, created_to, limit: '100' })
  const only = (answer: Answer): Answer =>
    answer.status === 200
      ? { ...answer, body: (answer.body as { id: string }[]).filter((each) => each.id === id) }
      : answer
  return await sendOnce(
    scenario,
    first_client,
    async (client) => only(await client.get(`/v1/payments?${query.toString()}`)),
    { payment, operation: { op: 'list', status } },
  )
}

/** One read, on either API, of the refund that was asked for under `key`. */
export async function readRefund(
  scenario: Scenario,
  { key: payment }: CreatedPayment,
  { id, key }: { id: string; key: string },
): Promise<void> {
  const first_client = scenario.reads.between(0, scenario.clients.length - 1)
  await sendOnce(scenario, first_client, (client) => client.get(`/v1/refunds/${id}`), {
    payment,
    operation: { op: 'read refund', key },
  })
}

/** What others do at the processor; it may refuse. */
export async function changeAtProcessor(
  { seen, processor }: Scenario,
  payment: string,
  operation: ExternalChange,
  path: string,
  body: object,
): Promise<void> {
  recordCall(seen.histories, payment, { operation, api: 0, start: performance.now(), answer: null })
  await processor('POST', path, body).catch(() => undefined)
}

/** A call about a payment goes into its history; of others, what they showed is kept. */
type Subject = { payment: string; operation: Operation } | { observed: ResourceName }

/** Whether it is done or refused, or may have been done without anybody knowing, which the client has to live with. */
export function isFinalAnswer({ status, body }: Answer): boolean {
  if (status === 202) return body.status === 'unknown'
  return status === 200 || status === 201 || REFUSALS.has(status) || isSendFailure(body)
}

function isSendFailure(body: Answer['body']): boolean {
  return SEND_FAILURES.has(body?.error?.code as string)
}

/** Repeats under the same key while it is not answered, not yet (202), or told to come again (503). */
export async function postUntilFinal(
  scenario: Scenario,
  path: string,
  body: unknown,
  subject?: Subject,
  headers: Record<string, string> = PREFER_WAIT,
  isEnough = isFinalAnswer,
): Promise<Answer> {
  const deadline = performance.now() + scenario.limit_ms
  // On record, and it may take its time, as when its effect is not known.
  let accepted: Answer | undefined
  for (let attempt = 0; ; attempt++) {
    const post = (client: Client) => client.post(path, body, headers)
    const answer = await sendOnce(scenario, scenario.first_client + attempt, post, subject)
    if (answer !== null && isEnough(answer)) return answer
    if (answer !== null && answer.status !== 503) {
      if (answer.status !== 202) {
        scenario.seen.problems.push({
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
      scenario.seen.problems.push({ problem: 'a 503 that does not say when to come again', path })
    if (performance.now() > deadline) {
      if (accepted !== undefined) return accepted
      throw new Error(`no final answer from ${path}`)
    }
    await sleep(RETRY_DELAY_MS)
  }
}

/** Asks the client at that place, once; null when nothing comes. */
export async function sendOnce(
  { seen, clients }: Scenario,
  client_index: number,
  send: (client: Client) => Promise<Answer>,
  subject?: Subject,
): Promise<Answer | null> {
  seen.requests++
  const nth = client_index % clients.length
  const start = performance.now()
  const api_and_start = { api: nth + 1, start }
  const call =
    subject && 'operation' in subject
      ? { operation: subject.operation, ...api_and_start, answer: null }
      : undefined
  // From the beginning: what is never answered may have an effect, too.
  if (call && subject && 'operation' in subject) recordCall(seen.histories, subject.payment, call)
  const answer = await send(clients[nth]!).catch(() => null)
  const end = performance.now()
  if (call) {
    const result = resultOf(call.operation, answer)
    const answered: Call['answer'] = result && { end, result }
    Object.assign(call, { answer: answered })
  } else if (subject && 'observed' in subject && answer !== null)
    observe(seen.observations, subject.observed, answer, { ...api_and_start, end })
  const status = answer?.status ?? 0
  const code: unknown = status >= 500 ? answer?.body?.error?.code : undefined
  const kind = typeof code === 'string' ? `${status} ${code}` : String(status)
  seen.answers.set(kind, (seen.answers.get(kind) ?? 0) + 1)
  // A caller can do nothing about it, whatever was broken: what may be over soon is 503.
  if (status === 500 && !isSendFailure(answer?.body))
    seen.problems.push({ problem: 'an API failed by its own fault', api: nth + 1, answer: answer!.text })
  if (status === 0 || (status >= 500 && !isSendFailure(answer?.body))) seen.refused++
  if (answer?.headers.get('idempotent-replayed') === 'true') seen.replays.push(performance.now())
  return answer
}
