// Sends at the maximum rate: the product until its last accepted message is sent, and the libraries alone.
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

/** Figures of sent messages. */
export type Sending = Pick<Load, 'rate' | 'count' | 'cpu_us' | 'cpu'>

/** Every client requests messages one by one, without waiting until they are sent. The run ends when all are sent. */
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

/** Accepts messages for `seconds` while the queue is paused. Measures from the resumption until all are sent. */
export async function sendWaiting(
  system: System,
  url: string,
  channel: Channel,
  seconds: number,
): Promise<Sending> {
  const since = new Date().toISOString()
  const pause = { queue: sendEmail.queue }
  await pauseJobs(system.sql, pause)
  const count = await acceptMessages(system, url, channel, seconds)
  const sending = await timed(async () => {
    await resumeJobs(system.sql, pause)
    await untilDrained(system)
    return count
  })
  await finish(system, { channel, since, count })
  return sending
}

/** Returns the number of accepted messages. */
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

/**
 * Asserts that all messages were sent, and cancels their lookups. No SMS callbacks arrive here, so the worker would
 * look each SMS up a minute later, during another run.
 */
async function finish(
  { sql }: System,
  { channel, since, count }: { channel: Channel; since: string; count: number },
): Promise<void> {
  const [row] = await sql<{ sent: number }[]>`
    select count(*)::integer as sent from messages
    where created_at >= ${since} and channel = ${channel} and status in ('sent', 'delivered')`
  if (row!.sent !== count) throw new Error(`of ${count} accepted messages, ${row!.sent} are sent`)
  await sql`update messages set lookup_at = null where lookup_at is not null`
}

/** Accepts `rate` messages a second while the worker sends them. Resolves when all are sent. */
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

/** Runs the library alone, in the process at `url`. */
export async function sendAlone(url: string, channel: Channel, seconds: number): Promise<Sending> {
  return await timed(async () => {
    const answer = await fetch(`${url}/${channel}?seconds=${seconds}`)
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return (JSON.parse(text) as { sent: number }).sent
  })
}

/** Measures `send`, which returns the number of sent messages. */
async function timed(send: () => Promise<number>): Promise<Sending> {
  const cpu_before = cpuTimes()
  const started_at = performance.now()
  const count = await send()
  const rate = count / ((performance.now() - started_at) / 1000)
  const cpu = costs(cpu_before, cpuTimes(), count)
  return { rate, count, cpu_us: Object.values(cpu).reduce((sum, us) => sum + us, 0), cpu }
}

/** Requests for messages of these tenants in rotation, with respond-async. */
function messageRequests(keys: Key[], channel: Channel): () => string {
  let next_key = 0
  return () => {
    const { authorization } = keys[next_key++ % keys.length]!
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
