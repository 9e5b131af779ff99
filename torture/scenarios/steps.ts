// Steps of stories about payouts, top-ups, verifications and messages: ask for one, read it until it is as awaited.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '#test/client.ts'
import {
  sendOnce,
  fromOtherClient,
  postUntilFinal,
  READ_INTERVAL_MS,
  EXTERNAL_CHANGE_TIMEOUT_MS,
  acceptanceOf,
  type Scenario,
} from '../calls.ts'
import { recordAcceptance, type Created, type Kind } from '../record.ts'
import type { ResourceName } from '../observations.ts'

const PATHS: Record<Exclude<Created, 'payment'>, string> = {
  customer: '/v1/customers',
  merchant: '/v1/merchants',
  recipient: '/v1/recipients',
  top_up: '/v1/wallet/top_ups',
  payout: '/v1/payouts',
  kyc: '/v1/compliance/kyc',
  message: '/v1/messages',
}

/** One that was created under `key`. */
export type CreatedResource = { resource: ResourceName; key: string; id: string }

/** From now on this is how the story may leave it. */
export function expectEnd({ seen }: Scenario, key: string, ...statuses: string[]): void {
  seen.ends.set(key, statuses)
}

/** Creates a party that payouts go to or that is verified. Answers its id. */
export async function createParty(
  scenario: Scenario,
  resource: 'customer' | 'merchant' | 'recipient',
  body: object,
): Promise<string> {
  const key = `${scenario.key}-${resource}`
  const answer = await postUntilFinal(scenario, PATHS[resource], { ...body, idempotency_key: key })
  recordAcceptance(scenario.seen, acceptanceOf(resource, key, answer))
  return answer.body.id
}

/** Asks for one, now and then twice. The answer may be a refusal, or 202 when nobody knows yet. */
export async function createResource(
  scenario: Scenario,
  resource: ResourceName,
  body: object & { idempotency_key: string },
  headers?: Record<string, string>,
): Promise<Answer> {
  const { idempotency_key: key } = body
  const once = async (by: Scenario) => {
    const answer = await postUntilFinal(by, PATHS[resource], body, { observed: resource }, headers)
    if (answer.status < 300) recordAcceptance(scenario.seen, acceptanceOf(resource, key, answer))
    return answer
  }
  const [answer] = await Promise.all([
    once(scenario),
    scenario.random.next() < 0.2 && once(fromOtherClient(scenario)),
  ])
  return answer
}

/** Asks for a change until it is answered for good: 200, a refusal, or 202 when nobody knows yet. */
export async function changeResource(
  scenario: Scenario,
  kind: Kind,
  { resource, id }: CreatedResource,
  action: string,
  body: object & { idempotency_key: string },
): Promise<number> {
  const answer = await postUntilFinal(scenario, `${PATHS[resource]}/${id}/${action}`, body, {
    observed: resource,
  })
  if (answer.status < 300) recordAcceptance(scenario.seen, acceptanceOf(kind, body.idempotency_key, answer))
  return answer.status
}

/** Reads it, on either API, until it is so. Null: it never was. */
export async function readUntil(
  scenario: Scenario,
  { resource, id }: CreatedResource,
  is: (body: any) => boolean,
): Promise<any> {
  for (const deadline = performance.now() + EXTERNAL_CHANGE_TIMEOUT_MS; ; await sleep(READ_INTERVAL_MS)) {
    const client_index = scenario.reads.between(0, scenario.clients.length - 1)
    const answer = await sendOnce(
      scenario,
      client_index,
      (client) => client.get(`${PATHS[resource]}/${id}`),
      {
        observed: resource,
      },
    )
    if (answer?.status === 200 && is(answer.body)) return answer.body
    if (performance.now() < deadline) continue
    scenario.seen.problems.push({ problem: 'what happened at the processor is not shown', resource, id })
    return null
  }
}

/** Reads it until it is in this status, in which the story leaves it. */
export async function waitForStatus(
  scenario: Scenario,
  begun: CreatedResource,
  status: string,
): Promise<void> {
  expectEnd(scenario, begun.key, status)
  await readUntil(scenario, begun, (body) => body.status === status)
}

/** What the processor calls it; null when that is never known. */
export async function referenceOf(scenario: Scenario, begun: CreatedResource): Promise<string | null> {
  const body = await readUntil(scenario, begun, ({ processor_reference, provider_reference }) =>
    Boolean(processor_reference ?? provider_reference),
  )
  return body && (body.processor_reference ?? body.provider_reference)
}

/** What a bank or a person does there. False: it is not possible any more. */
export async function atProcessor({ processor }: Scenario, path: string, body: object): Promise<boolean> {
  return await processor('POST', path, body).then(
    () => true,
    () => false,
  )
}

/** The answer is none of those that the story knows. */
export function reportUnexpected(
  { seen }: Scenario,
  key: string,
  { status, text }: Pick<Answer, 'status' | 'text'>,
): void {
  seen.problems.push({ problem: 'an answer that nobody may get', key, status, answer: text })
}
