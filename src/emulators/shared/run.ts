// Runs an emulator as a process of its own.
import { runUntilStopped } from '#core/run.ts'
import { portError, type EmulatorPort } from '#core/startup.ts'
import { isSupervised } from '#core/supervised.ts'

type StartedEmulator = { url: string; close(): Promise<void> }

/** The command line options of every emulator except the port, whose default differs by emulator. */
export const EMULATOR_OPTIONS = {
  host: { type: 'string', default: '127.0.0.1' },
  'api-key': { type: 'string' },
  'data-dir': { type: 'string' },
  'no-request-log': { type: 'boolean' },
} as const

/**
 * An emulator that is starting. `variable`: the variable to name in error messages about the port. `host`, `port`: the
 * address to listen on. `line`: returns what is printed if no supervisor has started the process.
 */
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
