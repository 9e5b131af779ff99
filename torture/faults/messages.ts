// Message faults: a worker dies after it has sent a message and before it has recorded the result; replies are
// processed out of order.
import { CHANNEL_PROVIDERS } from '#domain/messages/message.ts'
import { CHANNELS, type Channel } from '#core/addresses.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import { departuresOf } from '../verdict/departures.ts'
import { requestMessage } from './requests.ts'
import type { Fault } from './fault.ts'
import { findPerformer } from './processes.ts'

/** Number of keywords that are processed late: half of them opt out, the others opt in. */
const LATE_KEYWORDS = 6
/**
 * Keywords that Sluice recognizes and Twilio does not. Otherwise Twilio would block the message that each number gets
 * between its two keywords.
 */
const [OPTS_OUT, OPTS_IN] = ['Stop.', 'Start.']
/** In lenient runs notifications may be processed late, so the time limit is long. */
const PROCESSING_TIMEOUT_MS = 60_000

export const MESSAGE_FAULTS: Fault[] = [
  {
    name: 'kill-after-send',
    about:
      'kill -9 of the workers that sent an SMS and an email, before they recorded it: nothing is sent again',
    duration_ms: 4500,
    recovery_limit_ms: 6000,
    inflict: killAfterSend,
  },
  {
    name: 'late-keywords',
    about:
      'an opt-out or opt-in keyword is processed after one that was received later: the later one counts',
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
  const to = { sms: `+1212${2_300_000 + nth}`, email: `recipient-${nth}@example.com` }
  const providers = CHANNELS.map((channel) => wires.provider(CHANNEL_PROVIDERS[channel]))
  for (const wire of providers) wire.withholdAnswersTo(label)
  // Without the pause, status callbacks would report that the messages were sent.
  await pauseCallbacks(true)
  try {
    const performers = await Promise.all(
      CHANNELS.map(async (channel) => {
        const id = await sendMessage(system, channel, `${label}-${channel}`, to[channel])
        // At once: the job stops waiting for its answer while the other message is requested again.
        return await findPerformer(system, id, 0, 'messages')
      }),
    )
    for (const worker of new Set(performers.map((performer) => performer.worker))) {
      await worker.kill()
      await worker.start()
    }
  } finally {
    for (const wire of providers) wire.withholdAnswersTo()
    await pauseCallbacks(false)
  }
}

/**
 * Requests messages until the provider has sent one, and returns its id. A provider may refuse some, or give no answer.
 */
async function sendMessage(system: System, channel: Channel, label: string, to: string): Promise<string> {
  for (let nth = 1; ; nth++) {
    const { id } = await requestMessage(system, channel, `${label}-${nth}`, to)
    const end = await until('the message is sent or failed', async () => {
      if ((await departuresOf(system)).some((sent) => sent.id === id)) return 'sent'
      const failed = await system.sql`
        select from messages where id = ${id} and status in ('failed', 'unknown')`
      return failed.length > 0 && 'failed'
    })
    if (end === 'sent') return id
  }
}

/**
 * Sends replies whose keywords are processed late, because a reply from a number that has got no message is parked. The
 * verdict compares the keywords with the suppressions.
 */
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

/**
 * Sends an inbound SMS until it is stored. Resolves when the notification of the SMS has this state, with the id of
 * the notification, which is also the id of its job.
 */
async function receiveInbound(
  system: System,
  inbound: { from: string; to: string; body: string },
  state: string,
): Promise<string> {
  const id = await until('the keyword is stored', async () => {
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
    `the keyword is ${state}`,
    async () => (await sql`select from notifications where id = ${id} and state = ${state}`).length > 0,
    PROCESSING_TIMEOUT_MS,
  )
}
