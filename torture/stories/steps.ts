// Steps of stories about payouts, top-ups, verifications and messages: ask for one, read it until it is as awaited.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer } from '#test/client.ts'
import { ask, asOther, insist, LOOK_AGAIN_MS, OUTSIDE_PATIENCE_MS, seenOf, type Story } from '../calls.ts'
import { note, type Created, type Kind } from '../record.ts'
import type { Noun } from '../sightings.ts'

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
export type Begun = { noun: Noun; key: string; id: string }

/** From now on this is how the story may leave it. */
export function leaves({ seen }: Story, key: string, ...statuses: string[]): void {
  seen.ends.set(key, statuses)
}

/** Creates a party that payouts go to or that is verified. Answers its id. */
export async function party(
  story: Story,
  noun: 'customer' | 'merchant' | 'recipient',
  body: object,
): Promise<string> {
  const key = `${story.key}-${noun}`
  const answer = await insist(story, PATHS[noun], { ...body, idempotency_key: key })
  note(story.seen, seenOf(noun, key, answer))
  return answer.body.id
}

/** Asks for one, now and then twice. The answer may be a refusal, or 202 when nobody knows yet. */
export async function begin(
  story: Story,
  noun: Noun,
  body: object & { idempotency_key: string },
  headers?: Record<string, string>,
): Promise<Answer> {
  const { idempotency_key: key } = body
  const once = async (by: Story) => {
    const answer = await insist(by, PATHS[noun], body, { shows: noun }, headers)
    if (answer.status < 300) note(story.seen, seenOf(noun, key, answer))
    return answer
  }
  const [answer] = await Promise.all([once(story), story.random.next() < 0.2 && once(asOther(story))])
  return answer
}

/** Asks for a change until it is answered for good: 200, a refusal, or 202 when nobody knows yet. */
export async function change(
  story: Story,
  kind: Kind,
  { noun, id }: Begun,
  action: string,
  body: object & { idempotency_key: string },
): Promise<number> {
  const answer = await insist(story, `${PATHS[noun]}/${id}/${action}`, body, { shows: noun })
  if (answer.status < 300) note(story.seen, seenOf(kind, body.idempotency_key, answer))
  return answer.status
}

/** Reads it, on either API, until it is so. Null: it never was. */
export async function shown(story: Story, { noun, id }: Begun, is: (body: any) => boolean): Promise<any> {
  for (const deadline = performance.now() + OUTSIDE_PATIENCE_MS; ; await sleep(LOOK_AGAIN_MS)) {
    const place = story.reads.between(0, story.clients.length - 1)
    const answer = await ask(story, place, (client) => client.get(`${PATHS[noun]}/${id}`), { shows: noun })
    if (answer?.status === 200 && is(answer.body)) return answer.body
    if (performance.now() < deadline) continue
    story.seen.problems.push({ problem: 'what happened at the processor is not shown', noun, id })
    return null
  }
}

/** Reads it until it is in this status, in which the story leaves it. */
export async function endsAs(story: Story, begun: Begun, status: string): Promise<void> {
  leaves(story, begun.key, status)
  await shown(story, begun, (body) => body.status === status)
}

/** What the processor calls it; null when that is never known. */
export async function referenceOf(story: Story, begun: Begun): Promise<string | null> {
  const body = await shown(story, begun, ({ processor_reference, provider_reference }) =>
    Boolean(processor_reference ?? provider_reference),
  )
  return body && (body.processor_reference ?? body.provider_reference)
}

/** What a bank or a person does there. False: it is not possible any more. */
export async function atProcessor({ processor }: Story, path: string, body: object): Promise<boolean> {
  return await processor('POST', path, body).then(
    () => true,
    () => false,
  )
}

/** The answer is none of those that the story knows. */
export function astray(
  { seen }: Story,
  key: string,
  { status, text }: Pick<Answer, 'status' | 'text'>,
): void {
  seen.problems.push({ problem: 'an answer that nobody may get', key, status, answer: text })
}
