// Steps of stories about messages: whom one goes to, asking for it until it is answered for good, reading it.
import type { Channel } from '#core/addresses.ts'
import type { Answer } from '#test/client.ts'
import { ask, asOther, insist, isForGood, type Story } from '../calls.ts'
import { note } from '../record.ts'
import { astray, leaves, type Begun } from './steps.ts'

/** How a message may end with which nothing is wrong: its provider fails now and then, or gives no answer. */
export const ENDS: Record<Channel, string[]> = {
  email: ['sent', 'failed', 'unknown'],
  sms: ['sent', 'delivered', 'failed', 'unknown'],
}
/** The same of one that its provider refuses. */
export const REFUSED = ['failed', 'unknown']
export const ASYNC = { prefer: 'respond-async' }
const MOST_PLACES = 8
const FIRST_NUMBER = 2_300_000
const MOST_READS = 3

/** An address or a number that no other story has; each place another. */
export function addressOf({ key, nth }: Story, channel: Channel, place = 0): string {
  return channel === 'email'
    ? `${key}-${place}@example.com`
    : `+1415${FIRST_NUMBER + nth * MOST_PLACES + place}`
}

/** The body of a request for one message; its text names its key, so that the provider's record can be told apart. */
export function bodyOf(channel: Channel, key: string, to: string): { idempotency_key: string } {
  const text = `This is ${key}.`
  const said = channel === 'email' ? { to: [to], subject: key, text } : { to, body: text }
  return { idempotency_key: key, ...said }
}

/** Asks for a message, now and then twice. Answers the message, or that its provider has failed. */
export async function send(
  story: Story,
  channel: Channel,
  body: object & { idempotency_key: string },
  ends: readonly string[],
  headers?: Record<string, string>,
): Promise<Answer> {
  const { idempotency_key: key } = body
  leaves(story, key, ...ends)
  const enough = (answer: Answer) =>
    isForGood(answer) || (headers !== undefined && answer.status === 202) || isTooLate(answer)
  const once = async (by: Story) => {
    const path = `/v1/messages/${channel}`
    const answer = await insist(by, path, body, { shows: 'message' }, headers, enough)
    if (isTooLate(answer)) await wasNotAccepted(story, key)
    else noteMessage(story, key, answer)
    return answer
  }
  const twice = story.random.next() < 0.3
  const [answer] = await Promise.all([once(story), twice && once(asOther(story))])
  if (story.random.next() < 0.2) await once(asOther(story))
  return answer
}

/** By the time when somebody was there to accept it, it should have gone. */
function isTooLate({ status, body }: Answer): boolean {
  return status === 400 && body.error.param === 'send_at'
}

/** What was accepted is repeated whenever it is asked for again: what is refused was not. */
export async function wasNotAccepted(story: Story, key: string): Promise<void> {
  const answer = await ask(story, story.first, (client) => client.get(`/v1/idempotency_keys/${key}`))
  if (answer?.status === 200) story.seen.problems.push({ problem: 'what is refused was accepted', key })
}

/** Keeps that a message is on record: it was accepted, also where its provider failed. */
export function noteMessage(
  story: Story,
  key: string,
  answer: Pick<Answer, 'status' | 'body' | 'text'>,
): void {
  const id: unknown = answer.status < 300 ? answer.body.id : answer.body.error.context?.message_id
  if (typeof id === 'string') note(story.seen, { kind: 'message', key, id, status: null, amount_minor: null })
  else astray(story, key, answer)
}

/** The message of an answer; null when its provider failed, or nobody knows. */
export function begunBy(key: string, answer: Answer): Begun | null {
  return answer.status === 201 ? { noun: 'message', key, id: answer.body.id } : null
}

/** Reads it a few times on either API, alone and in lists. */
export async function readSome(story: Story, id: string, to: string): Promise<void> {
  const { reads, clients } = story
  const query = new URLSearchParams({ to }).toString()
  for (let times = reads.between(0, MOST_READS); times > 0; times--) {
    const path = reads.pick([`/v1/messages/${id}`, `/v1/messages/${id}`, `/v1/messages?${query}`])
    const place = reads.between(0, clients.length - 1)
    await ask(story, place, (client) => client.get(path), { shows: 'message' })
  }
}
