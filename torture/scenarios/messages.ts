// Message scenarios: sent at once, async or scheduled, canceled, refused, lost, in batches, and to suppressed
// recipients.
import { setTimeout as sleep } from 'node:timers/promises'
import { CHANNELS, type Channel } from '#core/addresses.ts'
import type { Answer } from '#test/client.ts'
import { RETRY_DELAY_MS, postUntilFinal, isFinalAnswer, type Scenario } from '../calls.ts'
import {
  addressOf,
  ASYNC,
  createdMessage,
  bodyOf,
  FINAL_STATUSES,
  recordMessage,
  readMessage,
  REFUSED_STATUSES,
  send,
  checkNotAccepted,
} from './send.ts'
import { reportUnexpected, changeResource, waitForStatus, expectEnd } from './steps.ts'
import { bounceScenario, optOutScenario, sendEmailEvent, keywordScenario } from './suppressions.ts'

type Variant = (scenario: Scenario, channel: Channel) => Promise<void>

export async function messageScenario(scenario: Scenario): Promise<void> {
  const channel = scenario.random.pick(CHANNELS)
  await scenario.random.pick(VARIANTS)(scenario, channel)
}

const VARIANTS: Variant[] = [
  sentAtOnce,
  sentAtOnce,
  sentAtOnce,
  sentAsync,
  sentAsync,
  toTestAddress,
  toTestAddress,
  scheduled,
  scheduled,
  batch,
  async (scenario, channel) => await (channel === 'email' ? recipientsScenario : optOutScenario)(scenario),
  async (scenario, channel) => await (channel === 'email' ? bounceScenario : optOutScenario)(scenario),
  async (scenario, channel) => await (channel === 'email' ? steeringScenario : keywordScenario)(scenario),
]

async function sentAtOnce(scenario: Scenario, channel: Channel): Promise<void> {
  const key = `${scenario.key}-message`
  const to = addressOf(scenario, channel)
  const answer = await send(scenario, channel, bodyOf(channel, key, to), FINAL_STATUSES[channel])
  const created = createdMessage(key, answer)
  if (created !== null) await readMessage(scenario, created.id, to)
}

/** A message whose client does not wait for the result. If the message was certainly not sent, it is retried. */
async function sentAsync(scenario: Scenario, channel: Channel): Promise<void> {
  const key = `${scenario.key}-message`
  const to = addressOf(scenario, channel)
  const answer = await send(scenario, channel, bodyOf(channel, key, to), FINAL_STATUSES[channel], ASYNC)
  if (answer.status < 300) await readMessage(scenario, answer.body.id, to)
}

/**
 * Test addresses that a provider refuses or never confirms, with the possible final statuses. With `delivered`, the
 * scenario reports the delivery.
 */
const TEST_ADDRESSES: Record<Channel, { to: (scenario: Scenario) => string; ends: string[] }[]> = {
  email: [
    { to: ({ key }) => `${key}@bounce.example`, ends: REFUSED_STATUSES },
    { to: ({ key }) => `${key}@defer.example`, ends: REFUSED_STATUSES },
    { to: ({ key }) => `${key}@reject.example`, ends: REFUSED_STATUSES },
    { to: ({ key }) => `${key}@lost.example`, ends: [...REFUSED_STATUSES, 'delivered'] },
  ],
  sms: [
    ...['+15005550001', '+15005550002', '+15005550003', '+15005550009', '+15005550500'].map((number) => ({
      to: () => number,
      ends: REFUSED_STATUSES,
    })),
    // The first message to this number fails because the number has sent STOP. Later messages are suppressed.
    { to: () => '+15005550004', ends: [...REFUSED_STATUSES, 'suppressed'] },
    { to: () => '+15005550599', ends: FINAL_STATUSES.sms },
  ],
}

async function toTestAddress(scenario: Scenario, channel: Channel): Promise<void> {
  const { random } = scenario
  const key = `${scenario.key}-message`
  const { to, ends } = random.pick(TEST_ADDRESSES[channel])
  const waits = random.next() < 0.7
  const answer = await send(
    scenario,
    channel,
    bodyOf(channel, key, to(scenario)),
    ends,
    waits ? undefined : ASYNC,
  )
  const { status, id } = answer.status === 202 ? answer.body : {}
  if (!ends.includes('delivered') || channel === 'sms' || status !== 'unknown' || random.next() < 0.5) return
  // A delivery is reported only if the server has accepted the email: the attempt may have failed before that.
  const query = new URLSearchParams({ to: to(scenario) }).toString()
  const accepted: unknown[] = await scenario.provider('smtp').control('GET', `/messages?${query}`)
  if (accepted.length === 0) return
  await sendEmailEvent(scenario, { type: 'email.delivered', data: { message_id: id, address: to(scenario) } })
  await waitForStatus(scenario, { resource: 'message', key, id }, 'delivered')
}

/** A scheduled message that is canceled before it is due, when it is due, or not at all. */
async function scheduled(scenario: Scenario, channel: Channel): Promise<void> {
  const { random } = scenario
  const key = `${scenario.key}-message`
  const due = Date.now() + random.between(2000, 4000)
  const body = { ...bodyOf(channel, key, addressOf(scenario, channel)), send_at: new Date(due).toISOString() }
  const created = createdMessage(
    key,
    await send(scenario, channel, body, [...FINAL_STATUSES[channel], 'canceled']),
  )
  const kind = random.next()
  if (created === null || kind < 0.3) return
  if (kind < 0.7) await sleep(Math.max(0, due - Date.now() + scenario.reads.between(-100, 100)))
  const status = await changeResource(scenario, 'cancel_message', created, 'cancel', {
    idempotency_key: `${key}-cancel`,
  })
  if (status === 200) await waitForStatus(scenario, created, 'canceled')
  else expectEnd(scenario, key, ...FINAL_STATUSES[channel])
}

type Item = { status: number; message?: any; error?: any }

/** A batch with one invalid recipient. Sometimes all other messages have the same text and the same recipient. */
async function batch(scenario: Scenario, channel: Channel): Promise<void> {
  const { random } = scenario
  const invalid_index = random.between(0, 3)
  const same = channel === 'sms' ? { body: 'Hello.' } : { text: 'Hello.' }
  const alike = random.next() < 0.3 ? same : null
  const messages = [0, 1, 2, 3].map((nth) => {
    const key = `${scenario.key}-message-${nth}`
    expectEnd(scenario, key, ...FINAL_STATUSES[channel])
    const to = addressOf(scenario, channel, alike === null ? nth : 0)
    return { ...bodyOf(channel, key, nth === invalid_index ? 'nobody' : to), ...alike }
  })
  const sendOnce = () =>
    postUntilFinal(scenario, `/v1/messages/${channel}/batch`, { messages }, { observed: 'message' })
  let answer = await sendOnce()
  // Each item is accepted or refused with 503 independently of the others.
  for (
    const deadline = performance.now() + scenario.limit_ms;
    performance.now() < deadline;
    await sleep(RETRY_DELAY_MS)
  ) {
    if (answer.status !== 200 || (answer.body as Item[]).every(({ status }) => status !== 503)) break
    answer = await sendOnce()
  }
  if (answer.status !== 200) return reportUnexpected(scenario, scenario.key, answer)
  const items: Item[] = answer.body
  for (const [nth, { status, message, error }] of items.entries()) {
    const { idempotency_key: key } = messages[nth]!
    const reported = { status, body: message ?? { error }, text: JSON.stringify(message ?? error) }
    if (nth !== invalid_index) recordMessage(scenario, key, reported)
    else if (status !== 400) reportUnexpected(scenario, key, reported)
  }
}

/** Headers that control relays: some relays obey them, and then send to other recipients or report nothing. */
const STEERING = [
  'X-SMTPAPI',
  'X-MC-BccAddress',
  'X-MSYS-API',
  'X-SES-CONFIGURATION-SET',
  'X-PM-Bounce-Type',
  'x-mailgun-drop-message',
]

/** An email with a header that controls relays is refused and not stored. */
async function steeringScenario(scenario: Scenario): Promise<void> {
  const key = `${scenario.key}-message`
  const headers = { [scenario.random.pick(STEERING)]: '{"to":["other@example.com"]}' }
  const body = { ...bodyOf('email', key, addressOf(scenario, 'email')), headers }
  // No status is allowed: the message must not exist.
  expectEnd(scenario, key)
  const refused = ({ status }: Answer) => status === 400 || isFinalAnswer({ status, body: {} } as Answer)
  const answer = await postUntilFinal(scenario, '/v1/messages/email', body, undefined, undefined, refused)
  if (answer.status !== 400) return reportUnexpected(scenario, key, answer)
  await checkNotAccepted(scenario, key)
}

/** The server refuses one recipient of an email. The other recipients receive the email. */
async function recipientsScenario(scenario: Scenario): Promise<void> {
  const key = `${scenario.key}-message`
  const cc = [`${scenario.key}@bounce.example`, addressOf(scenario, 'email', 1)]
  const body = { ...bodyOf('email', key, addressOf(scenario, 'email')), cc }
  const answer = await send(scenario, 'email', body, FINAL_STATUSES.email)
  if (answer.status !== 201) return
  const statuses = (answer.body.recipients as { status: string | null }[]).map(({ status }) => status)
  // If the server fails, it may also refuse other recipients, and the bounced recipient may be retried.
  if (statuses[1] === 'accepted' || !statuses.includes('accepted')) reportUnexpected(scenario, key, answer)
}
