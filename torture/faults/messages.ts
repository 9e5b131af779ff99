// Messages: whoever sends them dies when they have left, before that is written.
import { PROVIDER_OF } from '#domain/messages/message.ts'
import { CHANNELS } from '#core/addresses.ts'
import { until } from '#test/process.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import { departuresOf } from '../verdict/departures.ts'
import { askMessage } from './ask.ts'
import type { Fault } from './fault.ts'
import { performerOf } from './processes.ts'

export const MESSAGE_FAULTS: Fault[] = [
  {
    name: 'kill-after-send',
    about: 'kill -9 of whoever sent an SMS and an email, before it wrote so: nothing is sent again',
    takes_ms: 4500,
    bar_ms: 6000,
    inflict: killAfterSend,
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
