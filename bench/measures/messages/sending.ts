// Sending as fast as it goes: the product until the last message it accepted is sent, and the libraries alone.
import type { Channel } from '#core/addresses.ts'
import { sendEmail } from '#jobs/messages.ts'
import { freshKey } from '#test/client.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { cpuTimes, costs } from '../../cpu.ts'
import { closedLoop, openLoop, request, type Load } from '../../load.ts'
import type { Key, System } from '../../system.ts'
import { untilDrained } from '../measure.ts'
import { EMAIL_TEXTS, newAddress, SMS_TEXT } from './texts.ts'

const CLIENTS = 64

/** Of messages that were sent. */
export type Sending = Pick<Load, 'rate' | 'count' | 'cpu_us' | 'cpu'>

/** Every client asks for a message without waiting for it, and begins again. The run ends when all are sent. */
export async function sendAsAccepted(
  system: System,
  url: string,
  channel: Channel,
  seconds: number,
): Promise<Sending> {
  const since = new Date().toISOString()
  const sending = await timed(async () => {
    const count = await acceptMessages(system, url, channel, seconds)
    await untilDrained(system)
    return count
  })
  await finish(system, { channel, since, count: sending.count })
  return sending
}

/** Sends what was accepted in `seconds` while the queue was paused: from the moment at which it is resumed. */
export async function sendWaiting(
  system: System,
  url: string,
  channel: Channel,
  seconds: number,
): Promise<Sending> {
  const since = new Date().toISOString()
  const what = { queue: sendEmail.queue }
  await pauseJobs(system.sql, what)
  const count = await acceptMessages(system, url, channel, seconds)
  const sending = await timed(async () => {
    await resumeJobs(system.sql, what)
    await untilDrained(system)
    return count
  })
  await finish(system, { channel, since, count })
  return sending
}

/** Answers how many messages were accepted. */
async function acceptMessages(
  system: System,
  url: string,
  channel: Channel,
  seconds: number,
): Promise<number> {
  const next = messageRequests(system.keys, channel)
  const { count } = await closedLoop({ url, connections: CLIENTS, seconds, expect: 202, next })
  return count
}

/** Asserts that all were sent. Nobody tells of SMS here: the worker would ask about each a minute later, beside another run. */
async function finish(
  { sql }: System,
  { channel, since, count }: { channel: Channel; since: string; count: number },
): Promise<void> {
  const [row] = await sql<{ sent: number }[]>`
    select count(*)::integer as sent from messages
    where created_at >= ${since} and channel = ${channel} and status in ('sent', 'delivered')`
  if (row!.sent !== count) throw new Error(`of ${count} messages that were accepted, ${row!.sent} are sent`)
  await sql`update messages set lookup_at = null where lookup_at is not null`
}

/** `rate` messages a second are accepted, while the worker sends them; all are sent when it resolves. */
export async function acceptAt(
  system: System,
  url: string,
  channel: Channel,
  { rate, seconds }: { rate: number; seconds: number },
): Promise<Load> {
  const next = messageRequests(system.keys, channel)
  const since = new Date().toISOString()
  const load = await openLoop({ url, connections: 256, seconds, rate, expect: 202, next })
  await untilDrained(system)
  await finish(system, { channel, since, count: load.count })
  return load
}

/** The library alone, in the process that answers at `url`. */
export async function sendAlone(url: string, channel: Channel, seconds: number): Promise<Sending> {
  return await timed(async () => {
    const answer = await fetch(`${url}/${channel}?seconds=${seconds}`)
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return (JSON.parse(text) as { sent: number }).sent
  })
}

/** `send` answers how many messages it has sent. */
async function timed(send: () => Promise<number>): Promise<Sending> {
  const cpu_before = cpuTimes()
  const began = performance.now()
  const count = await send()
  const rate = count / ((performance.now() - began) / 1000)
  const cpu = costs(cpu_before, cpuTimes(), count)
  return { rate, count, cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0), cpu }
}

/** Messages of these tenants, who take turns and do not wait. */
function messageRequests(keys: Key[], channel: Channel): () => string {
  let turn = 0
  return () => {
    const { authorization } = keys[turn++ % keys.length]!
    const headers = { authorization, 'content-type': 'application/json', prefer: 'respond-async' }
    const to = newAddress(channel)
    const body = {
      idempotency_key: freshKey(),
      ...(channel === 'email' ? { to: [to], ...EMAIL_TEXTS } : { to, body: SMS_TEXT }),
      metadata: { order: 'A-17' },
    }
    return request('POST', `/v1/messages/${channel}`, headers, JSON.stringify(body))
  }
}
