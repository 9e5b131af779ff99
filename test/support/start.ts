// The processes that `npm start` starts.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Free ports for all listeners. */
export const PORTS = {
  API_PORT: '0',
  WEBHOOKS_PORT: '0',
  DASHBOARD_PORT: '0',
  EMULATOR_PORT: '0',
  TWILIO_EMULATOR_PORT: '0',
  SMTP_EMULATOR_PORT: '0',
  INBOX_PORT: '0',
  AI_EMULATOR_PORT: '0',
  METRICS_PORT: '0',
}

export type PartProcess = { pid: number; started: string }

/** The processes that a start in this folder runs, by part. */
export async function startedProcesses(data_dir: string): Promise<Record<string, PartProcess>> {
  const text = await readFile(join(data_dir, 'running.json'), 'utf8')
  return (JSON.parse(text) as { parts: Record<string, PartProcess> }).parts
}
