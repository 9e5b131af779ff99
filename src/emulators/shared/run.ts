// Runs an emulator as a process of its own.
import { runUntilStopped } from '#core/run.ts'
import { portError, type EmulatorPort } from '#core/startup.ts'
import { isSupervised } from '#core/supervised.ts'

type StartedEmulator = { url: string; close(): Promise<void> }

/** The options that every emulator has on its command line; each has a default port of its own. */
export const EMULATOR_OPTIONS = {
  host: { type: 'string', default: '127.0.0.1' },
  'api-key': { type: 'string' },
  'data-dir': { type: 'string' },
  'no-request-log': { type: 'boolean' },
} as const

/** The start of an emulator: the address of its command line, and the `line` that it prints without a supervisor. */
type Start<Emulator extends StartedEmulator> = {
  variable: EmulatorPort
  host: string
  port: number
  starting: Promise<Emulator>
  line: (emulator: Emulator) => Record<string, string>
}

/** Starts an emulator, and stops it with its process. `start` parses the command line. */
export async function runEmulator<Emulator extends StartedEmulator>(
  start: () => Start<Emulator>,
): Promise<void> {
  await runUntilStopped(async () => {
    const { variable, host, port, starting, line } = start()
    const emulator = await starting.catch((error: unknown) => {
      throw portError(error, { variable, host, port, host_variable: 'HOST' })
    })
    if (!isSupervised()) console.log(JSON.stringify(line(emulator)))
    return { close: () => emulator.close(), addresses: { url: emulator.url } }
  })
}
