// Runs a process: from its start to an orderly stop on a signal, or when its supervisor is gone.
import { parseArgs } from 'node:util'
import type { Log } from './log.ts'
import { isWriteAfterClose } from './postgres/late-writes.ts'
import { isUnhandledConnectionLoss } from './postgres/unheard-losses.ts'
import { errorText } from './startup.ts'
import { isSupervised, onSupervisorGone, reportStart, type Addresses } from './supervised.ts'

/** A part of a process that can be stopped; it finishes what is in flight. */
export type Stoppable = { close(): Promise<void> }

/** What a process runs. `addresses`: what its supervisor is told. */
export type StartedProcess = Stoppable & { log?: Log; addresses?: Addresses }

const SHUTDOWN_TIMEOUT_MS = 25_000
/** Ctrl-C arrives twice within moments: from the terminal, and again from npm, which passes it on. */
const SAME_SIGNAL_MS = 1_000
/** Characters that were written for people and nobody has read. */
const MAX_UNREAD_CHARACTERS = 1024 * 1024

/** Runs a process that takes no options but `--help`, which prints `help`: see `runUntilStopped`. */
export async function run(help: string, start: () => Promise<StartedProcess>): Promise<void> {
  try {
    const { values } = parseArgs({ options: { help: { type: 'boolean', short: 'h' } } })
    if (values.help === true) {
      process.stdout.write(`${help}\n`)
      return
    }
  } catch (error) {
    printStatus(errorText(error))
    process.exitCode = 1
    return
  }
  await runUntilStopped(start)
}

/**
 * Starts a process, stops it on SIGINT, SIGTERM or the end of its supervisor, and says why when it cannot start: to its
 * supervisor, or else on standard error. A second signal ends it at once.
 */
export async function runUntilStopped(start: () => Promise<StartedProcess>): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const starting = Promise.resolve().then(start)
  let has_started = false
  let stopped_at: number | undefined
  // A signal during the start waits until the start is finished, so that nothing half started is left behind.
  const stop = (reason: string) => {
    if (stopped_at !== undefined && performance.now() - stopped_at < SAME_SIGNAL_MS) return
    if (stopped_at !== undefined) process.exit(130)
    stopped_at = performance.now()
    setTimeout(() => process.exit(1), SHUTDOWN_TIMEOUT_MS).unref()
    void starting
      .then(async (started) => {
        started.log?.info({ signal: reason }, 'stopping: what is in flight is finished first')
        await started.close()
        process.exit(0)
      })
      .catch((error: unknown) => {
        printStatus(errorText(error))
        process.exit(1)
      })
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  onSupervisorGone(() => {
    if (!has_started) process.exit(1)
    if (stopped_at === undefined) stop('the supervisor is gone')
  })
  process.on('uncaughtException', (error) => {
    if (isWriteAfterClose(error) || isUnhandledConnectionLoss(error)) return
    printStatus(errorText(error))
    process.exit(1)
  })
  try {
    const { addresses = {} } = await starting
    has_started = true
    await reportStart({ ready: addresses })
  } catch (error) {
    if (stopped_at !== undefined) return
    if (isSupervised()) await reportStart({ refused: errorText(error) })
    else printStatus(errorText(error))
    process.exit(1)
  }
}

/** Writes a line for people: see `writeToConsole`. */
export function printStatus(line: string, stream?: NodeJS.WriteStream): void {
  writeToConsole(`${line}\n`, stream)
}

/**
 * Writes a text for people, by default on standard error. It fails silently: the disk may be full, or the reader gone or not reading, and the
 * work goes on.
 */
export function writeToConsole(text: string, stream: NodeJS.WriteStream = process.stderr): void {
  if (stream.writableLength > MAX_UNREAD_CHARACTERS) return
  try {
    stream.write(text)
  } catch {
    // Files are written at once, so that an error comes from here.
  }
}
