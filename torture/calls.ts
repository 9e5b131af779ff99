// Requests of the simulated clients. A client repeats a request until it gets a final answer. Calls about a payment
// are recorded in its history. For other resources, the observed states are recorded.
import { setTimeout as sleep } from 'node:timers/promises'
import { BY_CARD, type Answer, type Client } from '#test/client.ts'
import type { Provider, ProviderName } from '#test/providers.ts'
import { recordCall, resultOf, type Operation, type Call, type ExternalChange } from './history/call.ts'
import type { Random } from './random.ts'
import { recordAcceptance, type Created, type Kind, type ClientRecord } from './record.ts'
import { observe, type ResourceName } from './observations.ts'

export const RETRY_DELAY_MS = 250
export const READ_INTERVAL_MS = 1000
/**
 * If the notification of a change at the processor is lost, the change is read from the event list later. Each worker
 * that dies while it reads the list delays the change by another minute.
 */
export const EXTERNAL_CHANGE_TIMEOUT_MS = 240_000
/** The client waits for the result. */
const PREFER_WAIT = { prefer: 'wait=5' }
/** Final answers besides 200 and 201. */
const REFUSALS = new Set([402, 404, 409, 422])
/** A message is not retried while a client waits for it: the first failure is final. */
const SEND_FAILURES = new Set(['email_send_failed', 'sms_send_failed'])

export type Scenario = {
  key: string
  /** Unique among all scenarios. */
  nth: number
  random: Random
  /** Random numbers for reads that run concurrently with other calls. */
  reads: Random
  clients: Client[]
  /** Index of the client that sends first. If there is no answer, the next client repeats the request. */
  first_client: number
  processor: Provider['control']
  provider: (name: ProviderName) => Provider
  /** The webhooks host, and the secret that the email relay signs with. */
  webhooks_url: string
  email_secret: string
  /** Creates another tenant, without data, and returns its clients. */
  newTenant: () => Promise<Client[]>
  record: ClientRecord
  limit_ms: number
  /** The limit for a request that is never accepted. */
  refused_limit_ms: number
  /** True once the database has lost requests of the scenario: the scenario gets no more answers. */
  isInterrupted: () => boolean
}

/** The same scenario, with the other client first. */
export const withOtherClientFirst = (scenario: Scenario): Scenario => ({
  ...scenario,
  first_client: scenario.first_client + 1,
})

/** A created payment. `key`: its idempotency key, under which its calls are recorded. */
export type CreatedPayment = { key: string; id: string; created_at: string; processor_reference: string }

/** Creates a payment. Returns the payment, or null if it was declined or its outcome is unknown. */
export async function createPayment(
  scenario: Scenario,
  amount_minor: number,
  payment_method: string,
): Promise<CreatedPayment | null> {
  const key = `${scenario.key}-payment`
  const body = { ...BY_CARD, idempotency_key: key, amount_minor, payment_method }
  const recorded_as = { payment: key, operation: { op: 'create', key, amount_minor } } as const
  const answer = await postUntilFinal(scenario, '/v1/payments', body, recorded_as)
  if (answer.status === 402) {
    const id = answer.body.error.context.payment_id as string
    recordAcceptance(scenario.record, { kind: 'payment', key, id, status: 'failed', amount_minor: null })
    return null
  }
  if (answer.status >= 400) {
    scenario.record.problems.push({ problem: 'a payment was refused', key, answer: answer.text })
    return null
  }
  recordAcceptance(scenario.record, acceptanceOf('payment', key, answer))
  if (answer.status === 202) return null
  if (scenario.random.next() < 0.3)
    recordAcceptance(
      scenario.record,
      acceptanceOf('payment', key, await postUntilFinal(scenario, '/v1/payments', body, recorded_as)),
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

/**
 * Requests a change of a payment until the answer is final. Returns null if the change was refused or its outcome is
 * unknown.
 */
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
  const acceptance = acceptanceOf(kind, key, answer)
  recordAcceptance(scenario.record, may_fail_late ? { ...acceptance, status: null } : acceptance)
  return answer.status === 202 ? null : answer
}

export function acceptanceOf(
  kind: Kind,
  key: string,
  { body }: Answer,
): Parameters<typeof recordAcceptance>[1] {
  // A created resource changes later: only the result of an action is final.
  const status = NOT_FINAL_WHEN_CREATED.has(kind) ? null : (body.status as string)
  // The answer to a cancellation may show that a capture was earlier.
  const amount = kind === 'capture' || kind === 'cancel' ? body.amount_captured_minor : body.amount_minor
  return { kind, key, id: body.id as string, status, amount_minor: (amount as number | undefined) ?? null }
}

/** Reads the payment, its refunds, or a list with the payment, on a random API. Returns null if there is no answer. */
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

/** Reads the refund that was requested with `key`, on a random API. */
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

/** Changes the payment at the processor, without Sluice. The processor may refuse. */
export async function changeAtProcessor(
  { record, processor }: Scenario,
  payment: string,
  operation: ExternalChange,
  path: string,
  body: object,
): Promise<void> {
  recordCall(record.histories, payment, { operation, api: 0, start: performance.now(), answer: null })
  await processor('POST', path, body).catch(() => undefined)
}

/**
 * The resource of a call. A call about a payment is recorded in the history of the payment. For any other resource,
 * only the observed state is recorded.
 */
type RecordedAs = { payment: string; operation: Operation } | { observed: ResourceName }

/** True for a success, a refusal, and a 202 whose outcome is unknown: the client cannot do more. */
export function isFinalAnswer({ status, body }: Answer): boolean {
  if (status === 202) return body.status === 'unknown'
  return status === 200 || status === 201 || REFUSALS.has(status) || isSendFailure(body)
}

function isSendFailure(body: Answer['body']): boolean {
  return SEND_FAILURES.has(body?.error?.code as string)
}

/** Repeats a POST with the same key while there is no answer, or the answer is a 202 or a 503. */
export async function postUntilFinal(
  scenario: Scenario,
  path: string,
  body: unknown,
  recorded_as?: RecordedAs,
  headers: Record<string, string> = PREFER_WAIT,
  isEnough = isFinalAnswer,
): Promise<Answer> {
  const began_at = performance.now()
  // The request is stored, but its outcome is not final yet.
  let accepted: Answer | undefined
  for (let attempt = 0; ; attempt++) {
    const post = (client: Client) => client.post(path, body, headers)
    const answer = await sendOnce(scenario, scenario.first_client + attempt, post, recorded_as)
    if (answer !== null && isEnough(answer)) {
      if (answer.status < 300 || answer.status === 402) recordSent(scenario, path, body)
      return answer
    }
    if (answer !== null && answer.status !== 503) {
      if (answer.status !== 202) {
        scenario.record.problems.push({
          problem: 'an unexpected answer',
          path,
          status: answer.status,
          answer: answer.text,
        })
        throw new Error(`${answer.status} from ${path}`)
      }
      accepted = answer
    }
    if (answer?.status === 503 && !(Number(answer.headers.get('retry-after')) > 0))
      scenario.record.problems.push({ problem: 'a 503 without retry-after', path })
    const waited_ms = performance.now() - began_at
    if (waited_ms > scenario.limit_ms && accepted !== undefined) return accepted
    if (waited_ms > scenario.refused_limit_ms) throw new Error(`no final answer from ${path}`)
    await sleep(RETRY_DELAY_MS)
  }
}

function recordSent({ record, key, clients }: Scenario, path: string, body: unknown): void {
  record.sent.push({ scenario: key, clients, path, body, accepted_at: performance.now() })
}

/**
 * Sends one request with the client of this index. Returns null if there is no answer. Never resolves once the scenario
 * is interrupted.
 */
export async function sendOnce(
  { record, clients, isInterrupted }: Scenario,
  client_index: number,
  send: (client: Client) => Promise<Answer>,
  recorded_as?: RecordedAs,
): Promise<Answer | null> {
  if (isInterrupted()) return await new Promise(() => {})
  record.requests++
  const nth = client_index % clients.length
  const start = performance.now()
  const api_and_start = { api: nth + 1, start }
  const call =
    recorded_as && 'operation' in recorded_as
      ? { operation: recorded_as.operation, ...api_and_start, answer: null }
      : undefined
  // The call is recorded before the answer arrives: a request without an answer may have an effect.
  if (call && recorded_as && 'operation' in recorded_as)
    recordCall(record.histories, recorded_as.payment, call)
  const answer = await send(clients[nth]!).catch(() => null)
  const end = performance.now()
  if (call) {
    const result = resultOf(call.operation, answer)
    const answered: Call['answer'] = result && { end, result }
    Object.assign(call, { answer: answered })
  } else if (recorded_as && 'observed' in recorded_as && answer !== null)
    observe(record.observations, recorded_as.observed, answer, { ...api_and_start, end })
  const status = answer?.status ?? 0
  const code: unknown = status >= 500 ? answer?.body?.error?.code : undefined
  const kind = typeof code === 'string' ? `${status} ${code}` : String(status)
  record.answers.set(kind, (record.answers.get(kind) ?? 0) + 1)
  // A 500 is always a problem: temporary failures must be 503.
  if (status === 500 && !isSendFailure(answer?.body))
    record.problems.push({ problem: 'an API answered 500', api: nth + 1, answer: answer!.text })
  if (status === 0 || (status >= 500 && !isSendFailure(answer?.body))) record.refused++
  if (answer?.headers.get('idempotent-replayed') === 'true') record.replays.push(performance.now())
  return isInterrupted() ? await new Promise(() => {}) : answer
}
