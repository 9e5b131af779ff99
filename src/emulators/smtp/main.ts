// The SMTP emulator: accepts email and shows it in an inbox page, for development, demos and tests.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { portError } from '#core/startup.ts'
import { openAppendFile } from '../shared/append-file.ts'
import { emptyFaults } from '../shared/faults.ts'
import { emptyRequestLog } from '../shared/requests.ts'
import { EMULATOR_OPTIONS, runEmulator } from '../shared/run.ts'
import { startServer } from '../shared/server.ts'
import { answerInboxControl } from './control.ts'
import { storeMessageEffect, type MessageEffect, type SmtpEmulator } from './emulator.ts'
import { InboxRefusal } from './errors.ts'
import { answerMessage } from './message-page.ts'
import { inboxPage } from './page.ts'
import { startSmtpServer } from './server.ts'

const HOST = '127.0.0.1'
const USER = 'emulator'

export type SmtpEmulatorOptions = {
  /** The listen address. Default: 127.0.0.1. */
  host?: string
  /** Port of the page and the controls; 0: any free port. */
  port: number
  /** Port of SMTP. Default: any free port. */
  smtp_port?: number
  /** The password of the user. If set, other passwords get 535. */
  api_key?: string
  /** Folder of the file that records all emails. Null or missing: they are recorded in memory only. */
  data_dir?: string | null
  /** Whether the requests are logged. Default: true. */
  record_requests?: boolean
}

/** Resolves when the servers listen. `close` closes open connections and flushes the file. */
export async function startSmtpEmulator(
  options: SmtpEmulatorOptions,
): Promise<{ url: string; places: { smtp_url: string; inbox_url: string }; close(): Promise<void> }> {
  const { host = HOST, port, smtp_port = 0, api_key, data_dir, record_requests = true } = options
  const emulator: SmtpEmulator = {
    url: '',
    smtp_url: '',
    user: USER,
    password: api_key ?? null,
    faults: emptyFaults(),
    requests: emptyRequestLog(record_requests),
    messages: [],
    bytes: 0,
    read: new WeakMap(),
    effects: [],
    file: null,
  }
  await using cleanup = new AsyncDisposableStack()
  if (data_dir) {
    await mkdir(data_dir, { recursive: true, mode: 0o700 })
    const file = await openAppendFile(join(data_dir, 'smtp-effects.jsonl'), (line) =>
      storeMessageEffect(emulator, line as MessageEffect),
    )
    cleanup.defer(() => file.close())
    emulator.file = file
  }
  const smtp = await startSmtpServer(emulator, { host, port: smtp_port }).catch((error: unknown) => {
    throw portError(error, {
      variable: 'SMTP_EMULATOR_PORT',
      port: smtp_port,
      host_variable: 'HOST',
      host,
    })
  })
  cleanup.defer(() => smtp.close())
  const inbox = await startServer(
    { host, port },
    {
      api: (exchange) => answerMessage(emulator, host, exchange),
      control: (exchange) => answerInboxControl(emulator, exchange),
      page: (query) => inboxPage(emulator, query),
      errorBody: (message) => new InboxRefusal(403, message).body,
    },
  )
  cleanup.defer(() => inbox.close())
  emulator.url = inbox.url
  const login = `${USER}:${encodeURIComponent(api_key ?? 'any')}`
  emulator.smtp_url = `smtp://${login}@${host.includes(':') ? `[${host}]` : host}:${smtp.port}`
  const running = cleanup.move()
  return {
    url: inbox.url,
    places: { smtp_url: emulator.smtp_url, inbox_url: inbox.url },
    close: () => running.disposeAsync(),
  }
}

function start() {
  const { values } = parseArgs({
    options: {
      ...EMULATOR_OPTIONS,
      port: { type: 'string', default: '12113' },
      'smtp-port': { type: 'string', default: '0' },
    },
  })
  const { host } = values
  const port = Number(values.port)
  const starting = startSmtpEmulator({
    host,
    port,
    smtp_port: Number(values['smtp-port']),
    api_key: values['api-key'],
    data_dir: values['data-dir'],
    record_requests: !values['no-request-log'],
  })
  return {
    variable: 'INBOX_PORT' as const,
    host,
    port,
    starting,
    line: ({ places }: { places: { smtp_url: string; inbox_url: string } }) => places,
  }
}

if (import.meta.main) await runEmulator(start)
