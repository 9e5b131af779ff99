// The AI emulator: works with OpenAI's SDK, for development, demos and tests.
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { openAppendFile } from '../shared/append-file.ts'
import { emptyFaults } from '../shared/faults.ts'
import { emptyRequestLog } from '../shared/requests.ts'
import { EMULATOR_OPTIONS, runEmulator } from '../shared/run.ts'
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
  /** Folder of the file that records all completions. Null or missing: they are recorded in memory only. */
  data_dir?: string | null
  /** Whether the requests are logged. Default: true. */
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

function start() {
  const { values } = parseArgs({
    options: {
      ...EMULATOR_OPTIONS,
      port: { type: 'string', default: '12114' },
    },
  })
  const { host } = values
  const port = Number(values.port)
  const starting = startAiEmulator({
    host,
    port,
    api_key: values['api-key'],
    data_dir: values['data-dir'],
    record_requests: !values['no-request-log'],
  })
  return {
    variable: 'AI_EMULATOR_PORT' as const,
    host,
    port,
    starting,
    line: ({ url }: { url: string }) => ({ ai_url: url }),
  }
}

if (import.meta.main) await runEmulator(start)
