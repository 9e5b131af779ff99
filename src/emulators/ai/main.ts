// The AI emulator: works with OpenAI's SDK, for development, demos and tests.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runUntilStopped, type StartedProcess } from '#core/run.ts'
import { portError } from '#core/startup.ts'
import { isSupervised } from '#core/supervised.ts'
import { openAppendFile } from '../shared/append-file.ts'
import { emptyFaults } from '../shared/faults.ts'
import { emptyRequestLog } from '../shared/requests.ts'
import { startServer } from '../shared/server.ts'
import { answerAiApi } from './api.ts'
import { answerAiControl } from './control.ts'
import { storeCompletion, type AiEmulator, type Completion } from './emulator.ts'
import { AiRefusal } from './errors.ts'
import { aiPage } from './page.ts'

const HOST = '127.0.0.1'

export type AiEmulatorOptions = {
  /** The listen address. Default: 127.0.0.1. */
  host?: string
  /** The port; 0: any free port. */
  port: number
  /** The API key. If it is set, other keys get 401. */
  api_key?: string
  /** Folder of the record. Null or missing: the record is in memory only. */
  data_dir?: string | null
  /** Whether requests are recorded. Default: true. */
  record_requests?: boolean
}

/** Resolves when the server listens. `close` closes open connections and flushes the file. */
export async function startAiEmulator(
  options: AiEmulatorOptions,
): Promise<{ url: string; close(): Promise<void> }> {
  const emulator: AiEmulator = {
    url: '',
    api_key: options.api_key ?? null,
    faults: emptyFaults(),
    requests: emptyRequestLog(options.record_requests ?? true),
    completions: [],
    file: null,
    limited: new Set(),
  }
  if (options.data_dir) {
    await mkdir(options.data_dir, { recursive: true, mode: 0o700 })
    emulator.file = await openAppendFile(join(options.data_dir, 'ai-effects.jsonl'), (line) =>
      storeCompletion(emulator, line as Completion),
    )
  }
  const server = await startServer(
    { host: options.host ?? HOST, port: options.port },
    {
      api: (exchange) => answerAiApi(emulator, exchange),
      control: (exchange) => answerAiControl(emulator, exchange),
      page: (query) => aiPage(emulator, query),
      errorBody: (message) => new AiRefusal(403, message).body,
    },
  ).catch(async (error: unknown) => {
    await emulator.file?.close()
    throw error
  })
  emulator.url = server.url
  return {
    url: server.url,
    async close() {
      await server.close()
      await emulator.file?.close()
    },
  }
}

async function main(): Promise<StartedProcess> {
  const { values } = parseArgs({
    options: {
      host: { type: 'string', default: HOST },
      port: { type: 'string', default: '12114' },
      'api-key': { type: 'string' },
      'data-dir': { type: 'string' },
      'no-request-log': { type: 'boolean' },
    },
  })
  const emulator = await startAiEmulator({
    host: values.host,
    port: Number(values.port),
    api_key: values['api-key'],
    data_dir: values['data-dir'],
    record_requests: !values['no-request-log'],
  }).catch((error: unknown) => {
    const address = {
      variable: 'AI_EMULATOR_PORT',
      port: Number(values.port),
      host_variable: 'HOST',
    } as const
    throw portError(error, { ...address, host: values.host })
  })
  if (!isSupervised()) console.log(JSON.stringify({ ai_url: emulator.url }))
  return { close: () => emulator.close(), addresses: { url: emulator.url } }
}

if (import.meta.main) await runUntilStopped(main)
