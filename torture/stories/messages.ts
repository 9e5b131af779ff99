// Stories of messages: sent at once or later, canceled, refused, lost, in batches, and to whom nothing goes any more.
import { setTimeout as sleep } from 'node:timers/promises'
import { CHANNELS, type Channel } from '#core/addresses.ts'
import type { Answer } from '#test/client.ts'
import { AGAIN_MS, insist, isForGood, type Story } from '../calls.ts'
import {
  addressOf,
  ASYNC,
  begunBy,
  bodyOf,
  ENDS,
  noteMessage,
  readSome,
  REFUSED,
  send,
  wasNotAccepted,
} from './send.ts'
import { astray, change, endsAs, leaves } from './steps.ts'
import { bouncesStory, optOutStory, tellOfEmail, wordsStory } from './suppressions.ts'

type Way = (story: Story, channel: Channel) => Promise<void>

export async function messageStory(story: Story): Promise<void> {
  const channel = story.random.pick(CHANNELS)
  await story.random.pick(WAYS)(story, channel)
}

const WAYS: Way[] = [
  sent,
  sent,
  sent,
  later,
  later,
  special,
  special,
  scheduled,
  scheduled,
  batch,
  async (story, channel) => await (channel === 'email' ? severalStory : optOutStory)(story),
  async (story, channel) => await (channel === 'email' ? bouncesStory : optOutStory)(story),
  async (story, channel) => await (channel === 'email' ? steersStory : wordsStory)(story),
]

async function sent(story: Story, channel: Channel): Promise<void> {
  const key = `${story.key}-message`
  const to = addressOf(story, channel)
  const answer = await send(story, channel, bodyOf(channel, key, to), ENDS[channel])
  const begun = begunBy(key, answer)
  if (begun !== null) await readSome(story, begun.id, to)
}

/** Nobody waits for it: what was certainly not sent is tried again. */
async function later(story: Story, channel: Channel): Promise<void> {
  const key = `${story.key}-message`
  const to = addressOf(story, channel)
  const answer = await send(story, channel, bodyOf(channel, key, to), ENDS[channel], ASYNC)
  if (answer.status < 300) await readSome(story, answer.body.id, to)
}

/** To whom a provider sends nothing, or answers nothing, each with how that may end; `delivered` where we tell so. */
const SPECIAL: Record<Channel, { to: (story: Story) => string; ends: string[] }[]> = {
  email: [
    { to: ({ key }) => `${key}@bounce.example`, ends: REFUSED },
    { to: ({ key }) => `${key}@defer.example`, ends: REFUSED },
    { to: ({ key }) => `${key}@reject.example`, ends: REFUSED },
    { to: ({ key }) => `${key}@lost.example`, ends: [...REFUSED, 'delivered'] },
  ],
  sms: [
    ...['+15005550001', '+15005550002', '+15005550003', '+15005550009', '+15005550500'].map((number) => ({
      to: () => number,
      ends: REFUSED,
    })),
    // Somebody said STOP to it once: after the first time nothing leaves.
    { to: () => '+15005550004', ends: [...REFUSED, 'suppressed'] },
    { to: () => '+15005550599', ends: ENDS.sms },
  ],
}

async function special(story: Story, channel: Channel): Promise<void> {
  const { random } = story
  const key = `${story.key}-message`
  const { to, ends } = random.pick(SPECIAL[channel])
  const waits = random.next() < 0.7
  const answer = await send(story, channel, bodyOf(channel, key, to(story)), ends, waits ? undefined : ASYNC)
  const { status, id } = answer.status === 202 ? answer.body : {}
  if (!ends.includes('delivered') || channel === 'sms' || status !== 'unknown' || random.next() < 0.5) return
  // Something else may have gone wrong before.
  const query = new URLSearchParams({ to: to(story) }).toString()
  const taken: unknown[] = await story.provider('smtp').control('GET', `/messages?${query}`)
  if (taken.length === 0) return
  await tellOfEmail(story, { type: 'email.delivered', data: { message_id: id, address: to(story) } })
  await endsAs(story, { noun: 'message', key, id }, 'delivered')
}

/** Canceled before it is due, at the moment when it is, or not at all. */
async function scheduled(story: Story, channel: Channel): Promise<void> {
  const { random } = story
  const key = `${story.key}-message`
  const due = Date.now() + random.between(2000, 4000)
  const body = { ...bodyOf(channel, key, addressOf(story, channel)), send_at: new Date(due).toISOString() }
  const begun = begunBy(key, await send(story, channel, body, [...ENDS[channel], 'canceled']))
  const kind = random.next()
  if (begun === null || kind < 0.3) return
  if (kind < 0.7) await sleep(Math.max(0, due - Date.now() + story.reads.between(-100, 100)))
  const status = await change(story, 'cancel_message', begun, 'cancel', { idempotency_key: `${key}-cancel` })
  if (status === 200) await endsAs(story, begun, 'canceled')
  else leaves(story, key, ...ENDS[channel])
}

type Item = { status: number; message?: any; error?: any }

/** Some at once, of which one cannot be sent at all; now and then the same text to the same number. */
async function batch(story: Story, channel: Channel): Promise<void> {
  const { random } = story
  const wrong = random.between(0, 3)
  const same = channel === 'sms' ? { body: 'Hello.' } : { text: 'Hello.' }
  const alike = random.next() < 0.3 ? same : null
  const messages = [0, 1, 2, 3].map((nth) => {
    const key = `${story.key}-message-${nth}`
    leaves(story, key, ...ENDS[channel])
    const to = addressOf(story, channel, alike === null ? nth : 0)
    return { ...bodyOf(channel, key, nth === wrong ? 'nobody' : to), ...alike }
  })
  const ask = () => insist(story, `/v1/messages/${channel}/batch`, { messages }, { shows: 'message' })
  let answer = await ask()
  // Each is accepted by itself, or told to come again.
  for (
    const deadline = performance.now() + story.limit_ms;
    performance.now() < deadline;
    await sleep(AGAIN_MS)
  ) {
    if (answer.status !== 200 || (answer.body as Item[]).every(({ status }) => status !== 503)) break
    answer = await ask()
  }
  if (answer.status !== 200) return astray(story, story.key, answer)
  const items: Item[] = answer.body
  for (const [nth, { status, message, error }] of items.entries()) {
    const { idempotency_key: key } = messages[nth]!
    const said = { status, body: message ?? { error }, text: JSON.stringify(message ?? error) }
    if (nth !== wrong) noteMessage(story, key, said)
    else if (status !== 400) astray(story, key, said)
  }
}

/** What steers relays: some obey it, and send to others or report nothing. */
const STEERING = [
  'X-SMTPAPI',
  'X-MC-BccAddress',
  'X-MSYS-API',
  'X-SES-CONFIGURATION-SET',
  'X-PM-Bounce-Type',
  'x-mailgun-drop-message',
]

/** An email with such a header is refused, and nothing is on record of it. */
async function steersStory(story: Story): Promise<void> {
  const key = `${story.key}-message`
  const headers = { [story.random.pick(STEERING)]: '{"to":["other@example.com"]}' }
  const body = { ...bodyOf('email', key, addressOf(story, 'email')), headers }
  // There is no status in which it may be found.
  leaves(story, key)
  const refused = ({ status }: Answer) => status === 400 || isForGood({ status, body: {} } as Answer)
  const answer = await insist(story, '/v1/messages/email', body, undefined, undefined, refused)
  if (answer.status !== 400) return astray(story, key, answer)
  await wasNotAccepted(story, key)
}

/** One of them is refused, the others get it. */
async function severalStory(story: Story): Promise<void> {
  const key = `${story.key}-message`
  const cc = [`${story.key}@bounce.example`, addressOf(story, 'email', 1)]
  const body = { ...bodyOf('email', key, addressOf(story, 'email')), cc }
  const answer = await send(story, 'email', body, ENDS.email)
  if (answer.status !== 201) return
  const became = (answer.body.recipients as { status: string | null }[]).map(({ status }) => status)
  // Where the server fails, another one may be refused, too, and this one may have to be tried again.
  if (became[1] === 'accepted' || !became.includes('accepted')) astray(story, key, answer)
}
