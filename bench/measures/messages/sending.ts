// Sending as fast as it goes: the product until the last message it accepted is sent, and the libraries alone.
import type { Channel } from '#core/addresses.ts'
import { freshKey } from '#test/client.ts'
import { cpuTimes, costs } from '../../cpu.ts'
import { closedLoop, openLoop, request, type Load } from '../../load.ts'
import type { Key, System } from '../../system.ts'
import { untilDrained } from '../measure.ts'
import { EMAIL_TEXTS, newAddress, SMS_TEXT } from './texts.ts'

const CLIENTS = 64

/** Of messages that were sent; `accepted`: how many a second were accepted meanwhile. */
export type Sending = Pick<Load, 'rate' | 'count' | 'cpu_us' | 'cpu'> & { accepted: number }

/** Every client asks for a message without waiting for it, and begins again. The run ends when all are sent. */
export async function sendThrough(
  system: System,
  url: string,
  channel: Channel,
  seconds: number,
): Promise<Sending> {
  const since = new Date().toISOString()
  let accepted = 0
  const sending = await timed(async () => {
    const load = await closedLoop({
      url,
      connections: CLIENTS,
      seconds,
      expect: 202,
      next: messageRequests(system.keys, channel),
    })
    accepted = load.rate
    await untilDrained(system)
    return load.count
  })
  const [row] = await system.sql<{ sent: number }[]>`
    select count(*)::integer as sent from messages
    where created_at >= ${since} and channel = ${channel} and status in ('sent', 'delivered')`
  if (row!.sent !== sending.count)
    throw new Error(`of ${sending.count} messages that were accepted, ${row!.sent} are sent`)
  return { ...sending, accepted }
}

/** `rate` messages a second are accepted, while the worker sends them; all are sent when it resolves. */
export async function acceptAt(
  system: System,
  url: string,
  channel: Channel,
  { rate, seconds }: { rate: number; seconds: number },
): Promise<Load> {
  const next = messageRequests(system.keys, channel)
  const load = await openLoop({ url, connections: 256, seconds, rate, expect: 202, next })
  await untilDrained(system)
  return load
}

/** The library alone, in the process that answers at `url`. */
export async function sendAlone(url: string, channel: Channel, seconds: number): Promise<Sending> {
  const sending = await timed(async () => {
    const answer = await fetch(`${url}/${channel}?seconds=${seconds}`)
    const text = await answer.text()
    if (!answer.ok) throw new Error(text)
    return (JSON.parse(text) as { sent: number }).sent
  })
  return { ...sending, accepted: sending.rate }
}

/** `send` answers how many messages it has sent. */
async function timed(send: () => Promise<number>): Promise<Omit<Sending, 'accepted'>> {
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
