// Suppression scenarios: bounced emails and replies with STOP.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel } from '#core/addresses.ts'
import { postEmail } from '#test/messages.ts'
import { until } from '#test/process.ts'
import { sendOnce, EXTERNAL_CHANGE_TIMEOUT_MS, type Scenario } from '../calls.ts'
import { addressOf, createdMessage, bodyOf, FINAL_STATUSES, send } from './send.ts'
import { reportUnexpected, waitForStatus } from './steps.ts'

/** A lost inbound SMS is not sent again by the provider. The person repeats it. */
const REPEAT_DELAY_MS = 3000

/** Opt-out keywords in the spellings that people use. */
const OPT_OUT = ['STOP', ' stop ', 'Stop.', 'opt out', 'Opt-Out!', 'Unsubscribe', 'QUIT']
const OPT_IN = ['START', 'Start.', 'yes', '"Unstop"']

/** A delivered email bounces later. The address is suppressed. */
export async function bounceScenario(scenario: Scenario): Promise<void> {
  const { random } = scenario
  const address = addressOf(scenario, 'email')
  const key = `${scenario.key}-message`
  const answer = await send(scenario, 'email', bodyOf('email', key, address), [
    ...FINAL_STATUSES.email,
    'delivered',
    'undelivered',
  ])
  const created = createdMessage(key, answer)
  if (created === null) return
  const email = { message_id: created.id, address }
  if (random.next() < 0.3) await sendEmailEvent(scenario, { type: 'email.delivered', data: email })
  const event = random.pick([
    { type: 'email.bounced', data: { ...email, bounce: 'hard', diagnostic: '550 5.1.1 No such mailbox.' } },
    { type: 'email.complained', data: email },
  ])
  await sendEmailEvent(scenario, event)
  await waitForStatus(scenario, created, 'undelivered')
  await waitUntilSuppressed(scenario, 'email', address, true)
  await expectSuppressed(scenario, 'email', address)
}

/** The recipient opts out and perhaps in again. */
export async function optOutScenario(scenario: Scenario): Promise<void> {
  const { random } = scenario
  const number = addressOf(scenario, 'sms')
  const key = `${scenario.key}-message`
  const answer = await send(scenario, 'sms', bodyOf('sms', key, number), FINAL_STATUSES.sms)
  if (createdMessage(key, answer) === null) return
  const { from } = answer.body as { from: string }
  await sendInbound(scenario, { from: number, to: from, body: random.pick(OPT_OUT) }, true)
  await expectSuppressed(scenario, 'sms', number)
  if (random.next() < 0.5) return
  await sendInbound(scenario, { from: number, to: from, body: random.pick(OPT_IN) }, false)
  // The next message may be sent or suppressed, because a keyword that was received earlier may be processed later.
  await send(scenario, 'sms', bodyOf('sms', `${key}-again`, number), [...FINAL_STATUSES.sms, 'suppressed'])
}

/** Several keywords at once, in any order. The keyword that was received last counts; the verdict checks that. */
export async function keywordScenario(scenario: Scenario): Promise<void> {
  const { random } = scenario
  const number = addressOf(scenario, 'sms')
  const key = `${scenario.key}-message`
  const answer = await send(scenario, 'sms', bodyOf('sms', key, number), FINAL_STATUSES.sms)
  if (createdMessage(key, answer) === null) return
  const { from: to } = answer.body as { from: string }
  const keywords = Array.from({ length: random.between(2, 6) }, () => random.pick([...OPT_OUT, ...OPT_IN]))
  const twilio = scenario.provider('twilio')
  await Promise.all(keywords.map((body) => twilio.control('POST', '/inbound', { from: number, to, body })))
  await send(scenario, 'sms', bodyOf('sms', `${key}-again`, number), [...FINAL_STATUSES.sms, 'suppressed'])
}

async function expectSuppressed(scenario: Scenario, channel: Channel, address: string): Promise<void> {
  const key = `${scenario.key}-message-more`
  const answer = await send(scenario, channel, bodyOf(channel, key, address), ['suppressed'])
  if (answer.body.status !== 'suppressed') reportUnexpected(scenario, key, answer)
}

/** Sends an inbound SMS until it takes effect. */
async function sendInbound(
  scenario: Scenario,
  inbound: { from: string; to: string; body: string },
  suppressed: boolean,
): Promise<void> {
  for (const deadline = performance.now() + EXTERNAL_CHANGE_TIMEOUT_MS; performance.now() < deadline;) {
    await scenario.provider('twilio').control('POST', '/inbound', inbound)
    if (await waitUntilSuppressed(scenario, 'sms', inbound.from, suppressed, REPEAT_DELAY_MS)) return
  }
  scenario.record.problems.push({ problem: 'an inbound SMS had no effect', ...inbound })
}

/** Waits until the address is suppressed, or no longer suppressed. Returns false after `limit_ms`. */
async function waitUntilSuppressed(
  scenario: Scenario,
  channel: Channel,
  address: string,
  suppressed: boolean,
  limit_ms = EXTERNAL_CHANGE_TIMEOUT_MS,
): Promise<boolean> {
  const query = new URLSearchParams({ channel, address }).toString()
  for (const deadline = performance.now() + limit_ms; performance.now() < deadline; await sleep(200)) {
    const client_index = scenario.reads.between(0, scenario.clients.length - 1)
    const answer = await sendOnce(scenario, client_index, (client) =>
      client.get(`/v1/messages/suppressions?${query}`),
    )
    if (answer?.status === 200 && (answer.body as unknown[]).length > 0 === suppressed) return true
  }
  return false
}

type EmailProviderEvent = {
  type: string
  data: { message_id: string; address: string; bounce?: string; diagnostic?: string }
}

/** The relay posts an email event until it is acknowledged, sometimes twice. */
export async function sendEmailEvent(
  { random, webhooks_url, email_secret }: Scenario,
  event: EmailProviderEvent,
): Promise<void> {
  const host = { config: { WEBHOOKS_URL: webhooks_url } }
  const signed = { secret: email_secret, id: `msg_${randomUUID()}` }
  const postUntilAccepted = async () =>
    await until(
      `${event.type} is taken`,
      async () => (await postEmail(host, event, signed).catch(() => null))?.status === 200,
      EXTERNAL_CHANGE_TIMEOUT_MS,
    )
  await Promise.all([postUntilAccepted(), random.next() < 0.3 && postUntilAccepted()])
}
