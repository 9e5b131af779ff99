// Steps of scenarios with payouts, top-ups, verifications and messages: create one, and read it until it has the
// expected state.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '#test/client.ts'
import {
  sendOnce,
  withOtherClientFirst,
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

/** A resource that was created with `key`. */
export type CreatedResource = { resource: ResourceName; key: string; id: string }

/** Sets the statuses in which the scenario may leave the resource. */
export function expectEnd({ record }: Scenario, key: string, ...statuses: string[]): void {
  record.ends.set(key, statuses)
}

/** Creates a party for payouts or verifications. Returns its id. */
export async function createParty(
  scenario: Scenario,
  resource: 'customer' | 'merchant' | 'recipient',
  body: object,
): Promise<string> {
  const key = `${scenario.key}-${resource}`
  const answer = await postUntilFinal(scenario, PATHS[resource], { ...body, idempotency_key: key })
  recordAcceptance(scenario.record, acceptanceOf(resource, key, answer))
  return answer.body.id
}

/** Creates the resource, sometimes with two requests. The answer may be a refusal, or 202 if the outcome is unknown. */
export async function createResource(
  scenario: Scenario,
  resource: ResourceName,
  body: object & { idempotency_key: string },
  headers?: Record<string, string>,
): Promise<Answer> {
  const { idempotency_key: key } = body
  const once = async (sender: Scenario) => {
    const answer = await postUntilFinal(sender, PATHS[resource], body, { observed: resource }, headers)
    if (answer.status < 300) recordAcceptance(scenario.record, acceptanceOf(resource, key, answer))
    return answer
  }
  const [answer] = await Promise.all([
    once(scenario),
    scenario.random.next() < 0.2 && once(withOtherClientFirst(scenario)),
  ])
  return answer
}

/** Requests a change until the answer is final: 200, a refusal, or 202 if the outcome is unknown. */
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
  if (answer.status < 300) recordAcceptance(scenario.record, acceptanceOf(kind, body.idempotency_key, answer))
  return answer.status
}

/** Reads the resource on either API until the condition holds. Returns null after the limit. */
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
    scenario.record.problems.push({ problem: 'a change at the provider is not shown', resource, id })
    return null
  }
}

/** Waits for this status, in which the scenario leaves the resource. */
export async function waitForStatus(
  scenario: Scenario,
  created: CreatedResource,
  status: string,
): Promise<void> {
  expectEnd(scenario, created.key, status)
  await readUntil(scenario, created, (body) => body.status === status)
}

/** The provider's reference; null if it never appears. */
export async function referenceOf(scenario: Scenario, created: CreatedResource): Promise<string | null> {
  const body = await readUntil(scenario, created, ({ processor_reference, provider_reference }) =>
    Boolean(processor_reference ?? provider_reference),
  )
  return body && (body.processor_reference ?? body.provider_reference)
}

/** Performs an action of a bank or a person at the processor. Returns false if the processor refuses. */
export async function atProcessor({ processor }: Scenario, path: string, body: object): Promise<boolean> {
  return await processor('POST', path, body).then(
    () => true,
    () => false,
  )
}

/** Reports an answer that the scenario does not expect. */
export function reportUnexpected(
  { record }: Scenario,
  key: string,
  { status, text }: Pick<Answer, 'status' | 'text'>,
): void {
  record.problems.push({ problem: 'an unexpected answer', key, status, answer: text })
}
