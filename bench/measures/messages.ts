// Messages: accepted and sent, compared with nodemailer and Twilio's SDK alone on the same emulators.
import { join } from 'node:path'
import type { Channel } from '#core/addresses.ts'
import { runAlternately } from '../compare.ts'
import { resetStatements, writeStatements } from '../statements.ts'
import type { System } from '../system.ts'
import { atLeast, below, cost, info, type Row } from '../table.ts'
import { durableFloor } from './customers.ts'
import type { Measure } from './measure.ts'
import { acceptAt, sendAlone, sendAsAccepted, sendWaiting } from './messages/sending.ts'

/** Limits that no tenant reaches. */
const NO_LIMITS = { MESSAGES_PER_MINUTE: '1000000', MESSAGES_PER_DESTINATION_HOUR: '1000000' }
/** Connections and concurrency, the same for product and floor. */
const POOL = { SMTP_CONNECTIONS: '100', WORKER_CONCURRENCY: '250' }
const CHANNELS = [
  ['email', 'Email', 'nodemailer alone'],
  ['sms', 'SMS', "Twilio's SDK alone"],
] as const

export const messages: Measure = {
  name: 'messages',
  about:
    "email and SMS, accepted and sent, against nodemailer and Twilio's SDK alone; accepting with respond-async",
  async guarded(system, cleanup) {
    const api = cleanup.use(await system.startProduct('api', NO_LIMITS))
    cleanup.use(await system.startProduct('worker', POOL))
    const floor = cleanup.use(await system.startFloor('messages', POOL))
    return [
      {
        name: 'Email, accepted and sent',
        product: (seconds) => sendAsAccepted(system, api.url, 'email', seconds),
        floor: (seconds) => sendAlone(String(floor.report['url']), 'email', seconds),
      },
    ]
  },
  async run(system) {
    await using api = await system.startProduct('api', NO_LIMITS)
    await using worker = await system.startProduct('worker', POOL)
    await using floor = await system.startFloor('messages', POOL)
    void worker
    const rows: Row[] = []
    for (const [channel, name, alone] of CHANNELS) {
      const urls = { product: api.url, floor: String(floor.report['url']) }
      const { rows: sent, rate } = await measureSending(system, urls, { channel, name, alone })
      rows.push(...sent, ...(await measureAccepting(system, api.url, { channel, name, rate: rate / 2 })))
    }
    return rows
  },
}

/** Returns the rows and the product's messages per second. */
async function measureSending(
  system: System,
  urls: { product: string; floor: string },
  { channel, name, alone }: { channel: Channel; name: string; alone: string },
): Promise<{ rows: Row[]; rate: number }> {
  const { seconds, rounds, profile, log } = system.options
  log(`sending ${name}`)
  const sides = (run_s: number) => ({
    floor: () => sendAlone(urls.floor, channel, run_s),
    waiting: () => sendWaiting(system, urls.product, channel, run_s),
    product: () => sendAsAccepted(system, urls.product, channel, run_s),
  })
  await runAlternately(1, sides(Math.min(3, seconds)))
  const { floor, waiting, product } = await runAlternately(rounds, sides(seconds))
  if (profile !== null) {
    await resetStatements(system.sql)
    const { count } = await sendAsAccepted(system, urls.product, channel, seconds)
    await writeStatements(system.sql, join(profile, `statements-${channel}.txt`), count)
  }
  const alone_rate = { name: alone, value: floor.rate }
  const row = { measure: 'messages', unit: 'messages/s' } as const
  const [queued, at_once] = [`${name}, sent from the queue`, `${name}, accepted and sent at once`]
  const rows = [
    info({ ...row, name: `Floor: ${alone}`, measured: floor.rate }),
    atLeast({ ...row, name: queued, measured: waiting.rate }, alone_rate, 0.6),
    info({ ...row, name: at_once, measured: product.rate }, alone_rate),
    cost({ ...row, name: `Floor: ${alone}` }, floor),
    cost({ ...row, name: queued }, waiting, { ...floor, name: alone }),
    cost({ ...row, name: at_once }, product, { ...floor, name: alone }),
  ]
  return { rows, rate: product.rate }
}

async function measureAccepting(
  system: System,
  url: string,
  { channel, name, rate }: { channel: Channel; name: string; rate: number },
): Promise<Row[]> {
  const { seconds, rounds, log } = system.options
  log(`accepting ${name}`)
  await using durable = await durableFloor(system)
  await durable.run(Math.min(3, seconds))
  const { floor, product } = await runAlternately(rounds, {
    floor: () => durable.at(rate, seconds),
    product: () => acceptAt(system, url, channel, { rate, seconds }),
  })
  const measured = {
    measure: 'messages',
    unit: 'ms',
    name: `${name} with respond-async, accept p99 at ${Math.round(rate)}/s`,
    measured: product.p99_ms,
  } as const
  return [below(measured, 15), info(measured, { name: 'durable floor', value: floor.p99_ms })]
}
