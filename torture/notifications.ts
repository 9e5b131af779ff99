// Makes the providers' notifications unreliable: duplicate, out of order, late or lost. Lost events of the processor
// are read from its event list.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { EVENT_TYPES } from '#providers/stripe/events.ts'
import type { System } from './system.ts'

const MAX_DELAY_MS = 60_000
/** Maximum delay as a share of the run: in a short run, late notifications must arrive before the end. */
const MAX_DELAY_SHARE = 1 / 3

const PROMPT = { drop_percent: 0, late_percent: 0 }

/** Makes notifications unreliable for a run of this length. */
export async function makeNotificationsUnreliable({ provider }: System, length_ms: number): Promise<void> {
  const settings = {
    duplicate_percent: 20,
    shuffle: true,
    drop_percent: 3,
    late_percent: 5,
    late_ms: Math.min(MAX_DELAY_MS, length_ms * MAX_DELAY_SHARE),
  }
  await provider('stripe').control('POST', '/webhooks', settings)
  await provider('twilio').control('POST', '/callbacks', settings)
}

/**
 * Changes the settings so that notifications arrive soon, perhaps twice. Notifications that are already late stay
 * late.
 */
export async function makeNotificationsPrompt({ provider }: Pick<System, 'provider'>): Promise<void> {
  await provider('stripe').control('POST', '/webhooks', PROMPT)
  await provider('twilio').control('POST', '/callbacks', PROMPT)
}

/** Runs `work`. Notifications of the processor that are sent during `work` arrive soon. */
export async function withPromptNotifications<T>(
  { provider }: Pick<System, 'provider'>,
  work: () => Promise<T>,
): Promise<T> {
  const { control } = provider('stripe')
  const { drop_percent, late_percent } = await control('GET', '/webhooks')
  await control('POST', '/webhooks', PROMPT)
  try {
    return await work()
  } finally {
    await control('POST', '/webhooks', { drop_percent, late_percent })
  }
}

/** Events in the processor's own journal: all events of handled types, and those that Sluice acknowledged with 2xx. */
async function eventsOf(folder: string): Promise<{ all: string[]; acknowledged: string[] }> {
  const types = new Set<string>(EVENT_TYPES)
  const all: string[] = []
  const acknowledged: string[] = []
  const lines = createInterface({ input: createReadStream(join(folder, 'stripe', 'stripe-journal.jsonl')) })
  for await (const line of lines) {
    if (line.startsWith('{"delivered":'))
      acknowledged.push((JSON.parse(line) as { delivered: string }).delivered)
    if (!line.startsWith('{"event":')) continue
    const { event } = JSON.parse(line) as { event: { id: string; type: string } }
    if (types.has(event.type)) all.push(event.id)
  }
  return { all, acknowledged }
}

/**
 * The ids of events that are not stored in Sluice. `missed`: of all events of handled types. `acknowledged`: of the
 * events that Sluice acknowledged.
 */
export async function missingNotifications({
  sql,
  folder,
}: System): Promise<{ missed: string[]; acknowledged: string[] }> {
  const { all, acknowledged } = await eventsOf(folder)
  const rows = await sql<{ event_id: string }[]>`select event_id from all_notifications`
  const stored = new Set(rows.map(({ event_id }) => event_id))
  const missing = (ids: string[]) => ids.filter((id) => !stored.has(id))
  return { missed: missing(all), acknowledged: missing(acknowledged) }
}
