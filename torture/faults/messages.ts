// Messages: whoever sends them dies when they have left, before that is written; what people answer waits and is processed in another order.
import { PROVIDER_OF } from '#domain/messages/message.ts'
import { CHANNELS } from '#core/addresses.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import { departuresOf } from '../verdict/departures.ts'
import { askMessage } from './ask.ts'
import type { Fault } from './fault.ts'
import { performerOf } from './processes.ts'

/** Some of the later words opt out, the others in. */
const LATE_WORDS = 6
/** Twilio knows neither: else it would refuse the message between the two. */
const [OPTS_OUT, OPTS_IN] = ['Stop.', 'Start.']
/** Notifications are far behind where other work goes on. */
const HEARD_WITHIN_MS = 60_000

export const MESSAGE_FAULTS: Fault[] = [
  {
    name: 'kill-after-send',
    about: 'kill -9 of whoever sent an SMS and an email, before it wrote so: nothing is sent again',
    takes_ms: 4500,
    bar_ms: 6000,
    inflict: killAfterSend,
  },
  {
    name: 'late-words',
    about:
      'an opt-out or opt-in word waits and is processed after one that was received later: the later counts',
    takes_ms: 4000,
    bar_ms: 6000,
    inflict: processLate,
  },
]

async function killAfterSend(system: System, random: Random): Promise<void> {
  const { wires, provider } = system
  const tell = (paused: boolean) => provider('twilio').control('POST', '/callbacks', { paused })
  const nth = random.between(0, 7_000_000)
  const label = `after-send-${nth}`
  const to = { sms: `+1212${2_300_000 + nth}`, email: `somebody-${nth}@example.com` }
  const providers = CHANNELS.map((channel) => wires.provider(PROVIDER_OF[channel]))
  for (const wire of providers) wire.withholdAnswersTo(label)
  // Nor may it be told that they have left.
  await tell(true)
  try {
    const asked = await Promise.all(
      CHANNELS.map((channel) => askMessage(system, channel, `${label}-${channel}`, to[channel])),
    )
    await until('both have left', async () => {
      const left = new Set((await departuresOf(system)).map(({ id }) => id))
      return asked.every(({ id }) => left.has(id))
    })
    const performers = await Promise.all(asked.map(({ id }) => performerOf(system, id, 0, 'messages')))
    for (const worker of new Set(performers.map((performer) => performer.worker))) {
      await worker.kill()
      await worker.start()
    }
  } finally {
    for (const wire of providers) wire.withholdAnswersTo()
    await tell(false)
  }
}

/** Whoever writes before we ever wrote to them waits to be heard. The verdict compares the words with the suppressions. */
async function processLate(system: System, random: Random): Promise<void> {
  const first = 2_300_000 + random.between(0, 7_000_000)
  const numbers = Array.from({ length: LATE_WORDS }, (_, nth) => `+1646${first + nth}`)
  const write = (number: string) => askMessage(system, 'sms', `late-words-${number}`, number)
  const { from: to } = await write(`+1332${first}`)
  const say = (opts_out: (nth: number) => boolean, becomes: string) =>
    Promise.all(
      numbers.map((from, nth) =>
        receive(system, { from, to, body: opts_out(nth) ? OPTS_OUT : OPTS_IN }, becomes),
      ),
    )
  const waiting = await say((nth) => nth % 2 === 0, 'parked')
  await Promise.all(numbers.map(write))
  await say((nth) => nth % 2 === 1, 'applied')
  await system.sql`
    update jobs set run_at = now(), rung_at = null where id = any(${waiting}::uuid[]) and state = 'ready'`
  await Promise.all(waiting.map((id) => isNow(system, id, 'applied')))
}

/** Somebody sends us an SMS, until it is stored; resolves when its notification has this state, with its id, which is that of its job. */
async function receive(
  system: System,
  inbound: { from: string; to: string; body: string },
  becomes: string,
): Promise<string> {
  const id = await until('a word is stored', async () => {
    const { sid, status } = await system.provider('twilio').control('POST', '/inbound', inbound)
    if (status !== 200) return undefined
    const [stored] = await system.sql<{ id: string }[]>`
      select id from notifications where event_id = ${sid as string}`
    return stored?.id
  })
  await isNow(system, id, becomes)
  return id
}

async function isNow({ sql }: System, id: string, state: string): Promise<void> {
  await until(
    `a word is ${state}`,
    async () => (await sql`select from notifications where id = ${id} and state = ${state}`).length > 0,
    HEARD_WITHIN_MS,
  )
}
