// Stories of those who get nothing any more: their email came back, or they answered STOP.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel } from '#core/addresses.ts'
import { postEmail } from '#test/messages.ts'
import { until } from '#test/process.ts'
import { ask, OUTSIDE_PATIENCE_MS, type Story } from '../calls.ts'
import { addressOf, begunBy, bodyOf, ENDS, send } from './send.ts'
import { astray, endsAs } from './steps.ts'

/** An inbound SMS is not told of twice; somebody who is still written to repeats it. */
const SAY_AGAIN_MS = 3000

/** As people write them. */
const OPT_OUT = ['STOP', ' stop ', 'Stop.', 'opt out', 'Opt-Out!', 'Unsubscribe', 'QUIT']
const OPT_IN = ['START', 'Start.', 'yes', '"Unstop"']

/** Delivered, it comes back after all; nothing is sent there again. */
export async function bouncesStory(story: Story): Promise<void> {
  const { random } = story
  const address = addressOf(story, 'email')
  const key = `${story.key}-message`
  const answer = await send(story, 'email', bodyOf('email', key, address), [
    ...ENDS.email,
    'delivered',
    'undelivered',
  ])
  const begun = begunBy(key, answer)
  if (begun === null) return
  const told = { message_id: begun.id, address }
  if (random.next() < 0.3) await tellOfEmail(story, { type: 'email.delivered', data: told })
  const news = random.pick([
    { type: 'email.bounced', data: { ...told, bounce: 'hard', diagnostic: '550 5.1.1 No such mailbox.' } },
    { type: 'email.complained', data: told },
  ])
  await tellOfEmail(story, news)
  await endsAs(story, begun, 'undelivered')
  await isSuppressed(story, 'email', address, true)
  await getsNothing(story, 'email', address)
}

/** Until they change their mind. */
export async function optOutStory(story: Story): Promise<void> {
  const { random } = story
  const number = addressOf(story, 'sms')
  const key = `${story.key}-message`
  const answer = await send(story, 'sms', bodyOf('sms', key, number), ENDS.sms)
  if (begunBy(key, answer) === null) return
  const { from } = answer.body as { from: string }
  await say(story, { from: number, to: from, body: random.pick(OPT_OUT) }, true)
  await getsNothing(story, 'sms', number)
  if (random.next() < 0.5) return
  await say(story, { from: number, to: from, body: random.pick(OPT_IN) }, false)
  // What was said before may be heard of later.
  await send(story, 'sms', bodyOf('sms', `${key}-again`, number), [...ENDS.sms, 'suppressed'])
}

/** Several words at once, in any order: the one that was received last counts, which the verdict checks. */
export async function wordsStory(story: Story): Promise<void> {
  const { random } = story
  const number = addressOf(story, 'sms')
  const key = `${story.key}-message`
  const answer = await send(story, 'sms', bodyOf('sms', key, number), ENDS.sms)
  if (begunBy(key, answer) === null) return
  const { from: to } = answer.body as { from: string }
  const words = Array.from({ length: random.between(2, 6) }, () => random.pick([...OPT_OUT, ...OPT_IN]))
  const twilio = story.provider('twilio')
  await Promise.all(words.map((body) => twilio.control('POST', '/inbound', { from: number, to, body })))
  await send(story, 'sms', bodyOf('sms', `${key}-again`, number), [...ENDS.sms, 'suppressed'])
}

async function getsNothing(story: Story, channel: Channel, address: string): Promise<void> {
  const key = `${story.key}-message-more`
  const answer = await send(story, channel, bodyOf(channel, key, address), ['suppressed'])
  if (answer.body.status !== 'suppressed') astray(story, key, answer)
}

/** Somebody writes to us, until it shows. */
async function say(
  story: Story,
  inbound: { from: string; to: string; body: string },
  suppressed: boolean,
): Promise<void> {
  for (const deadline = performance.now() + OUTSIDE_PATIENCE_MS; performance.now() < deadline;) {
    await story.provider('twilio').control('POST', '/inbound', inbound)
    if (await isSuppressed(story, 'sms', inbound.from, suppressed, SAY_AGAIN_MS)) return
  }
  story.seen.problems.push({ problem: 'what somebody answered to an SMS is not heeded', ...inbound })
}

/** Reads the suppressions until this address is, or is no more, one of them. False: not within `limit_ms`. */
async function isSuppressed(
  story: Story,
  channel: Channel,
  address: string,
  suppressed: boolean,
  limit_ms = OUTSIDE_PATIENCE_MS,
): Promise<boolean> {
  const query = new URLSearchParams({ channel, address }).toString()
  for (const deadline = performance.now() + limit_ms; performance.now() < deadline; await sleep(200)) {
    const place = story.reads.between(0, story.clients.length - 1)
    const answer = await ask(story, place, (client) => client.get(`/v1/messages/suppressions?${query}`))
    if (answer?.status === 200 && (answer.body as unknown[]).length > 0 === suppressed) return true
  }
  return false
}

type EmailNews = {
  type: string
  data: { message_id: string; address: string; bounce?: string; diagnostic?: string }
}

/** A relay tells of an email until it is taken, perhaps twice. */
export async function tellOfEmail(
  { random, webhooks_url, email_secret }: Story,
  news: EmailNews,
): Promise<void> {
  const host = { config: { WEBHOOKS_URL: webhooks_url } }
  const signed = { secret: email_secret, id: `msg_${randomUUID()}` }
  const tell = async () =>
    await until(
      `${news.type} is taken`,
      async () => (await postEmail(host, news, signed).catch(() => null))?.status === 200,
      OUTSIDE_PATIENCE_MS,
    )
  await Promise.all([tell(), random.next() < 0.3 && tell()])
}
