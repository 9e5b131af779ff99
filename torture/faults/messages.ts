// Messages: whoever sends them dies when they have left, before that is written; what people answer waits and is processed in another order.
import { CHANNEL_PROVIDERS } from '#domain/messages/message.ts'
import { CHANNELS } from '#core/addresses.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import { departuresOf } from '../verdict/departures.ts'
import { requestMessage } from './ask.ts'
import type { Fault } from './fault.ts'
import { findPerformer } from './processes.ts'

/** Some of the later words opt out, the others in. */
const LATE_KEYWORDS = 6
/** Twilio knows neither: else it would refuse the message between the two. */
const [OPTS_OUT, OPTS_IN] = ['Stop.', 'Start.']
/** Notifications are far behind where other work goes on. */
const PROCESSING_TIMEOUT_MS = 60_000

export const MESSAGE_FAULTS: Fault[] = [
  {
    name: 'kill-after-send',
    about: 'kill -9 of whoever sent an SMS and an email, before it wrote so: nothing is sent again',
    duration_ms: 4500,
    recovery_limit_ms: 6000,
    inflict: killAfterSend,
  },
  {
    name: 'late-keywords',
    about:
      'an opt-out or opt-in word waits and is processed after one that was received later: the later counts',
    duration_ms: 4000,
    recovery_limit_ms: 6000,
    inflict: processKeywordsLate,
  },
]

async function killAfterSend(system: System, random: Random): Promise<void> {
  const { wires, provider } = system
  const pauseCallbacks = (paused: boolean) => provider('twilio').control('POST', '/callbacks', { paused })
  const nth = random.between(0, 7_000_000)
  const label = `after-send-${nth}`
  const to = { sms: `+1212${2_300_000 + nth}`, email: `somebody-${nth}@example.com` }
  const providers = CHANNELS.map((channel) => wires.provider(CHANNEL_PROVIDERS[channel]))
  for (const wire of providers) wire.withholdAnswersTo(label)
  // Nor may it be told that they have left.
  await pauseCallbacks(true)
  try {
    const messages = await Promise.all(
      CHANNELS.map((channel) => requestMessage(system, channel, `${label}-${channel}`, to[channel])),
    )
    await until('both have left', async () => {
      const sent_ids = new Set((await departuresOf(system)).map(({ id }) => id))
      return messages.every(({ id }) => sent_ids.has(id))
    })
    const performers = await Promise.all(messages.map(({ id }) => findPerformer(system, id, 0, 'messages')))
    for (const worker of new Set(performers.map((performer) => performer.worker))) {
      await worker.kill()
      await worker.start()
    }
  } finally {
    for (const wire of providers) wire.withholdAnswersTo()
    await pauseCallbacks(false)
  }
}

/** Whoever writes before we ever wrote to them waits to be heard. The verdict compares the words with the suppressions. */
async function processKeywordsLate(system: System, random: Random): Promise<void> {
  const first = 2_300_000 + random.between(0, 7_000_000)
  const numbers = Array.from({ length: LATE_KEYWORDS }, (_, nth) => `+1646${first + nth}`)
  const write = (number: string) => requestMessage(system, 'sms', `late-words-${number}`, number)
  const { from: to } = await write(`+1332${first}`)
  const receiveAll = (opts_out: (nth: number) => boolean, state: string) =>
    Promise.all(
      numbers.map((from, nth) =>
        receiveInbound(system, { from, to, body: opts_out(nth) ? OPTS_OUT : OPTS_IN }, state),
      ),
    )
  const waiting = await receiveAll((nth) => nth % 2 === 0, 'parked')
  await Promise.all(numbers.map(write))
  await receiveAll((nth) => nth % 2 === 1, 'applied')
  await system.sql`
    update jobs set run_at = now(), wakeup_sent_at = null where id = any(${waiting}::uuid[]) and state = 'ready'`
  await Promise.all(waiting.map((id) => untilState(system, id, 'applied')))
}

/** Somebody sends us an SMS, until it is stored; resolves when its notification has this state, with its id, which is that of its job. */
async function receiveInbound(
  system: System,
  inbound: { from: string; to: string; body: string },
  state: string,
): Promise<string> {
  const id = await until('a word is stored', async () => {
    const { sid, status } = await system.provider('twilio').control('POST', '/inbound', inbound)
    if (status !== 200) return undefined
    const [stored] = await system.sql<{ id: string }[]>`
      select id from notifications where event_id = ${sid as string}`
    return stored?.id
  })
  await untilState(system, id, state)
  return id
}

async function untilState({ sql }: System, id: string, state: string): Promise<void> {
  await until(
    `a word is ${state}`,
    async () => (await sql`select from notifications where id = ${id} and state = ${state}`).length > 0,
    PROCESSING_TIMEOUT_MS,
  )
}
