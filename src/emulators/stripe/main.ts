// The Stripe emulator: works with Stripe's SDK, for development, demos, tests and benchmarks.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { list } from '#core/config/list.ts'
import { resumeChanges } from '#providers/sandbox/stripe/due.ts'
import { errorBody } from '#providers/sandbox/stripe/errors.ts'
import { markDelivered, renderEvent } from '#providers/sandbox/stripe/events.ts'
import type { JournalLine } from '#providers/sandbox/stripe/journal.ts'
import { replayInto } from '#providers/sandbox/stripe/replay.ts'
import { openAppendFile } from '../shared/append-file.ts'
import { EMULATOR_OPTIONS, runEmulator } from '../shared/run.ts'
import { startServer } from '../shared/server.ts'
import { answerApi } from './api.ts'
import { answerControl } from './control.ts'
import type { EffectLine } from './effects.ts'
import { createEmulator, type Emulator } from './emulator.ts'
import { overviewPage } from './page.ts'
import { startWebhookSender, signStripe } from './webhooks.ts'

export { signStripe }

export type StripeEmulatorOptions = {
  /** The listen address. Default: 127.0.0.1. */
  host?: string
  /** The port; 0: any free port. */
  port: number
  /** The API key. If it is set, other keys get 401. */
  api_key?: string
  /** Receiver of events. Without it, events are only listed. */
  webhook_url?: string
  webhook_secret?: string
  /** Types of events to send. Default: all. */
  webhook_events?: string[]
  /** Folder of the journal and of the record of effects. Null or missing: both are in memory only. */
  data_dir?: string | null
  /** Lifetime of a hold. Default: 7 days. */
  capture_window_ms?: number
  /** Delay until the search finds new objects. Default: 0. */
  search_lag_ms?: number
  /** Time that a payout to `ba_lateReturn` stays paid. Default: 2 s. */
  late_return_ms?: number
  /**
   * Whether released holds are reported as refunds (`refund.created`, no metadata), as Stripe may do. Default: false.
   */
  release_refunds?: boolean
  /** Whether the requests are logged. Default: true. */
  record_requests?: boolean
}

export type StripeEmulator = { url: string; host: string; port: number; close(): Promise<void> }

/** Resolves when the server listens. `close` closes open connections and flushes the files. */
export async function startStripeEmulator(options: StripeEmulatorOptions): Promise<StripeEmulator> {
  const host = options.host ?? '127.0.0.1'
  const { capture_window_ms, search_lag_ms, late_return_ms, release_refunds, api_key } = options
  const emulator = createEmulator(
    { capture_window_ms, search_lag_ms, late_return_ms, release_refunds, api_key },
    options.record_requests ?? true,
  )
  const { engine, timer } = emulator
  if (options.data_dir) await openFiles(emulator, options.data_dir)

  const server = await startServer(
    { host, port: options.port },
    {
      api: (exchange) => answerApi(emulator, exchange),
      control: (exchange) => answerControl(emulator, exchange),
      page: (query) => overviewPage(emulator, query),
      errorBody: (message) => errorBody({ type: 'invalid_request_error', message }, null),
    },
  ).catch(async (error: unknown) => {
    await closeFiles(emulator)
    throw error
  })
  emulator.url = server.url
  engine.pages_url = `${server.url}/_emulator`

  if (options.webhook_url) {
    emulator.webhooks = startWebhookSender({
      url: options.webhook_url,
      secret: options.webhook_secret ?? 'whsec_emulator',
      types: options.webhook_events ?? null,
      render: (event) => renderEvent(engine, event),
      onDelivered: (event) => markDelivered(engine, event),
    })
    for (const event of engine.events.list) if (event.pending) emulator.webhooks.send(event)
  }
  resumeChanges(engine)
  timer.arm()

  return {
    url: server.url,
    host,
    port: server.port,
    async close() {
      emulator.closed = true
      timer.stop()
      emulator.webhooks?.close()
      await server.close()
      await closeFiles(emulator)
    },
  }
}

/** The effects have a separate file: an independent record that the emulator never reads for its state. */
async function openFiles(emulator: Emulator, data_dir: string): Promise<void> {
  await mkdir(data_dir, { recursive: true, mode: 0o700 })
  const replay = replayInto(emulator.engine)
  const journal = await openAppendFile(join(data_dir, 'stripe-journal.jsonl'), (line) =>
    replay(line as JournalLine),
  )
  emulator.journal = emulator.engine.journal = journal
  const { lines } = emulator.effects
  emulator.effects.file = await openAppendFile(join(data_dir, 'stripe-effects.jsonl'), (line) =>
    lines.push(line as EffectLine),
  )
}

async function closeFiles(emulator: Emulator): Promise<void> {
  await emulator.journal?.close()
  await emulator.effects.file?.close()
}

/** STRIPE_WEBHOOK_SECRET replaces `--webhook-secret`: command lines are public. */
function start() {
  const { values } = parseArgs({
    options: {
      ...EMULATOR_OPTIONS,
      port: { type: 'string', default: '12111' },
      'webhook-url': { type: 'string' },
      'webhook-secret': { type: 'string', default: list(process.env.STRIPE_WEBHOOK_SECRET ?? '')[0] },
      'webhook-events': { type: 'string' },
      'capture-window-ms': { type: 'string' },
      'search-lag-ms': { type: 'string' },
      'late-return-ms': { type: 'string' },
      'release-refunds': { type: 'boolean' },
    },
  })
  const { host } = values
  const port = Number(values.port)
  const starting = startStripeEmulator({
    host,
    port,
    api_key: values['api-key'],
    webhook_url: values['webhook-url'],
    webhook_secret: values['webhook-secret'],
    webhook_events: values['webhook-events']?.split(','),
    data_dir: values['data-dir'],
    ...(values['capture-window-ms'] && { capture_window_ms: Number(values['capture-window-ms']) }),
    ...(values['search-lag-ms'] && { search_lag_ms: Number(values['search-lag-ms']) }),
    ...(values['late-return-ms'] && { late_return_ms: Number(values['late-return-ms']) }),
    release_refunds: values['release-refunds'],
    record_requests: !values['no-request-log'],
  })
  return {
    variable: 'EMULATOR_PORT' as const,
    host,
    port,
    starting,
    line: ({ url }: { url: string }) => ({ stripe_url: url }),
  }
}

if (import.meta.main) await runEmulator(start)
