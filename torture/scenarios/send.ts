// Steps of message scenarios: addresses, sending until the answer is final, and reads.
import type { Channel } from '#core/addresses.ts'
import type { Answer } from '#test/client.ts'
import { sendOnce, withOtherClientFirst, postUntilFinal, isFinalAnswer, type Scenario } from '../calls.ts'
import { recordAcceptance } from '../record.ts'
import { reportUnexpected, expectEnd, type CreatedResource } from './steps.ts'

/** Final statuses of a message that a provider should accept: the provider may still fail or give no answer. */
export const FINAL_STATUSES: Record<Channel, string[]> = {
  email: ['sent', 'failed', 'unknown'],
  sms: ['sent', 'delivered', 'failed', 'unknown'],
}
/** Possible final statuses of a message that its provider refuses. */
export const REFUSED_STATUSES = ['failed', 'unknown']
export const ASYNC = { prefer: 'respond-async' }
const ADDRESSES_PER_SCENARIO = 8
const FIRST_NUMBER = 2_300_000
const MAX_READS = 3

/** An address or number of this scenario alone, different for each index. */
export function addressOf({ key, nth }: Scenario, channel: Channel, nth_address = 0): string {
  return channel === 'email'
    ? `${key}-${nth_address}@example.com`
    : `+1415${FIRST_NUMBER + nth * ADDRESSES_PER_SCENARIO + nth_address}`
}

/**
 * The body of a request for one message. The text contains the key, to recognize the message in the provider's record.
 */
export function bodyOf(channel: Channel, key: string, to: string): { idempotency_key: string } {
  const text = `This is ${key}.`
  const reported = channel === 'email' ? { to: [to], subject: key, text } : { to, body: text }
  return { idempotency_key: key, ...reported }
}

/** Sends a message, sometimes twice. Returns the message or the provider's failure. */
export async function send(
  scenario: Scenario,
  channel: Channel,
  body: object & { idempotency_key: string },
  ends: readonly string[],
  headers?: Record<string, string>,
): Promise<Answer> {
  const { idempotency_key: key } = body
  expectEnd(scenario, key, ...ends)
  const isEnough = (answer: Answer) =>
    isFinalAnswer(answer) || (headers !== undefined && answer.status === 202) || isExpiredSendAt(answer)
  const once = async (sender: Scenario) => {
    const path = `/v1/messages/${channel}`
    const answer = await postUntilFinal(sender, path, body, { observed: 'message' }, headers, isEnough)
    if (isExpiredSendAt(answer)) await checkNotAccepted(scenario, key)
    else recordMessage(scenario, key, answer)
    return answer
  }
  const twice = scenario.random.next() < 0.3
  const [answer] = await Promise.all([once(scenario), twice && once(withOtherClientFirst(scenario))])
  if (scenario.random.next() < 0.2) await once(withOtherClientFirst(scenario))
  return answer
}

/** True if the request was refused because `send_at` had passed before an API could accept the request. */
export function isExpiredSendAt({ status, body }: Answer): boolean {
  return status === 400 && body.error.param === 'send_at'
}

/** Checks that no request is stored under this key after the request was refused. */
export async function checkNotAccepted(scenario: Scenario, key: string): Promise<void> {
  const answer = await sendOnce(scenario, scenario.first_client, (client) =>
    client.get(`/v1/idempotency_keys/${key}`),
  )
  if (answer?.status === 200) scenario.record.problems.push({ problem: 'a refused request was stored', key })
}

/** Records that a message is stored. The message is stored even if its provider failed. */
export function recordMessage(
  scenario: Scenario,
  key: string,
  answer: Pick<Answer, 'status' | 'body' | 'text'>,
): void {
  const id: unknown = answer.status < 300 ? answer.body.id : answer.body.error.context?.message_id
  if (typeof id === 'string')
    recordAcceptance(scenario.record, { kind: 'message', key, id, status: null, amount_minor: null })
  else reportUnexpected(scenario, key, answer)
}

/** The message in an answer; null if its provider failed or the outcome is unknown. */
export function createdMessage(key: string, answer: Answer): CreatedResource | null {
  return answer.status === 201 ? { resource: 'message', key, id: answer.body.id } : null
}

/** Reads the message a few times on either API, by itself and in lists. */
export async function readMessage(scenario: Scenario, id: string, to: string): Promise<void> {
  const { reads, clients } = scenario
  const query = new URLSearchParams({ to }).toString()
  for (let times = reads.between(0, MAX_READS); times > 0; times--) {
    const path = reads.pick([`/v1/messages/${id}`, `/v1/messages/${id}`, `/v1/messages?${query}`])
    const nth_address = reads.between(0, clients.length - 1)
    await sendOnce(scenario, nth_address, (client) => client.get(path), { observed: 'message' })
  }
}
