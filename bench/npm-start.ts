// `npm start` as a developer runs it, with all servers embedded.
import { spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { freePort } from '#start/ports.ts'
import { untilAnswers } from './processes.ts'

const root = fileURLToPath(new URL('../', import.meta.url))
const STOP_LIMIT_MS = 40_000

/** Resolves at the first answer of the API. All started processes have ended when the disposal resolves. */
export async function npmStart(
  data_dir: string,
  env: Record<string, string> = {},
): Promise<{ url: string; pid: number; [Symbol.asyncDispose](): Promise<void> }> {
  const port = await freePort('127.0.0.1')
  const url = `http://127.0.0.1:${port}`
  // npm gets its own process group, so that npm, its shell and our processes end together.
  const npm = spawn('npm', ['start'], {
    cwd: root,
    detached: true,
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '',
      LOG_LEVEL: 'warn',
      DATA_DIR: data_dir,
      API_PORT: String(port),
      WEBHOOKS_PORT: '0',
      METRICS_PORT: '0',
      EMULATOR_PORT: '0',
      TWILIO_EMULATOR_PORT: '0',
      SMTP_EMULATOR_PORT: '0',
      INBOX_PORT: '0',
      AI_EMULATOR_PORT: '0',
      ...env,
    },
  })
  const group = -npm.pid!
  async function stop(): Promise<void> {
    // The signal goes only to npm, which forwards it. A second signal would end our processes immediately.
    npm.kill('SIGTERM')
    const until = performance.now() + STOP_LIMIT_MS
    while (signal(group, 0) && performance.now() < until) await sleep(20)
    signal(group, 'SIGKILL')
  }
  try {
    await untilAnswers(`${url}/healthz`)
  } catch (error) {
    await stop()
    throw error
  }
  return { url, pid: npm.pid!, [Symbol.asyncDispose]: stop }
}

function signal(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    process.kill(group, name)
    return true
  } catch {
    return false
  }
}
