// The Twilio emulator: works with Twilio's SDK, for development, demos and tests.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SmsRefusal } from '#providers/sandbox/sms/refusal.ts'
import { openAppendFile } from '../shared/append-file.ts'
import { emptyFaults } from '../shared/faults.ts'
import { emptyRequestLog } from '../shared/requests.ts'
import { EMULATOR_OPTIONS, runEmulator } from '../shared/run.ts'
import { startServer } from '../shared/server.ts'
import { answerTwilioApi } from './api.ts'
import { startCallbackSender } from './callbacks.ts'
import { answerTwilioControl } from './control.ts'
import { storeSmsEffect, type SmsEffect, type TwilioEmulator } from './emulator.ts'
import { twilioPage } from './page.ts'

const HOST = '127.0.0.1'
const ACCOUNT_SID = `AC${'0'.repeat(32)}`
const PACE_MS = 200

export type TwilioEmulatorOptions = {
  /** The listen address. Default: 127.0.0.1. */
  host?: string
  /** The port; 0: any free port. */
  port: number
  /** The SID of the account. Default: `AC` and zeros. */
  account_sid?: string
  /** The auth token of callers, also used for signatures. */
  api_key: string
  /** Receiver of inbound messages. Without it, inbound messages are refused. */
  webhook_url?: string | undefined
  /** Time between the statuses `accepted`, `sent` and `delivered`. Default: 200 ms. */
  pace_ms?: number
  /**
   * Folder of the file that records all messages, without their numbers and texts. Null or missing: they are recorded
   * in memory only.
   */
  data_dir?: string | null
  /** Whether the requests are logged. Default: true. */
  record_requests?: boolean
}

/** Resolves when the server listens. `close` closes open connections and flushes the file. */
export async function startTwilioEmulator(
  options: TwilioEmulatorOptions,
): Promise<{ url: string; close(): Promise<void> }> {
  const emulator: TwilioEmulator = {
    url: '',
    account_sid: options.account_sid ?? ACCOUNT_SID,
    auth_token: options.api_key,
    webhook_url: options.webhook_url ?? null,
    pace_ms: options.pace_ms ?? PACE_MS,
    faults: emptyFaults(),
    requests: emptyRequestLog(options.record_requests ?? true),
    messages: new Map(),
    received: [],
    effects: [],
    file: null,
    opted_out: new Set(),
    callbacks: startCallbackSender(options.api_key),
  }
  if (options.data_dir) {
    await mkdir(options.data_dir, { recursive: true, mode: 0o700 })
    emulator.file = await openAppendFile(join(options.data_dir, 'twilio-effects.jsonl'), (line) =>
      storeSmsEffect(emulator, line as SmsEffect),
    )
  }
  const server = await startServer(
    { host: options.host ?? HOST, port: options.port },
    {
      api: (exchange) => answerTwilioApi(emulator, exchange),
      control: (exchange) => answerTwilioControl(emulator, exchange),
      page: (query) => twilioPage(emulator, query),
      errorBody: (message) => new SmsRefusal(403, 20403, message).body,
    },
  ).catch(async (error: unknown) => {
    await emulator.file?.close()
    throw error
  })
  emulator.url = server.url
  return {
    url: server.url,
    async close() {
      emulator.callbacks.close()
      await server.close()
      await emulator.file?.close()
    },
  }
}

/** TWILIO_AUTH_TOKEN replaces `--api-key`: command lines are public. */
function start() {
  const { values } = parseArgs({
    options: {
      ...EMULATOR_OPTIONS,
      port: { type: 'string', default: '12112' },
      'account-sid': { type: 'string' },
      'api-key': { type: 'string', default: process.env.TWILIO_AUTH_TOKEN || 'twilio-emulator' },
      'webhook-url': { type: 'string' },
      'pace-ms': { type: 'string', default: String(PACE_MS) },
    },
  })
  const { host } = values
  const port = Number(values.port)
  const starting = startTwilioEmulator({
    host,
    port,
    account_sid: values['account-sid'],
    api_key: values['api-key'],
    webhook_url: values['webhook-url'],
    pace_ms: Number(values['pace-ms']),
    data_dir: values['data-dir'],
    record_requests: !values['no-request-log'],
  })
  return {
    variable: 'TWILIO_EMULATOR_PORT' as const,
    host,
    port,
    starting,
    line: ({ url }: { url: string }) => ({ twilio_url: url }),
  }
}

if (import.meta.main) await runEmulator(start)
