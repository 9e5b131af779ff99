// Runs a process from its start to an orderly stop on a signal, or after its supervisor has ended.
import { parseArgs } from 'node:util'
import type { Log } from './log.ts'
import { isWriteAfterClose } from './postgres/late-writes.ts'
import { isUnhandledConnectionLoss } from './postgres/unheard-losses.ts'
import { errorText } from './startup.ts'
import { markStopping } from './stopping.ts'
import { isSupervised, onSupervisorExit, reportStart, type Addresses } from './supervised.ts'

/** A part of a process that can be stopped; it finishes its running work. */
export type Stoppable = { close(): Promise<void> }

/**
 * A started process. `addresses`: reported to its supervisor. `drain`: after SIGTERM, resolves when callers have had
 * the time to choose another process; until then the process serves them. `shutdown_timeout_ms`: the limit of `close`,
 * by default `SHUTDOWN_TIMEOUT_MS`. `reread`: reads its secrets again after SIGHUP.
 */
export type StartedProcess = Stoppable & {
  log?: Log
  addresses?: Addresses
  drain?: () => Promise<void>
  shutdown_timeout_ms?: number | undefined
  reread?: () => Promise<void>
}

/** The time in which a process closes, after it was drained. */
export const SHUTDOWN_TIMEOUT_MS = 25_000
/** Equal signals within this time count as one: Ctrl-C arrives from the terminal, and again from npm. */
const DUPLICATE_SIGNAL_MS = 1_000
/** The maximum number of buffered characters for a console that does not read. */
const MAX_UNREAD_CHARACTERS = 1024 * 1024

/** Runs a process without options except `--help`, which prints `help`: see `runUntilStopped`. */
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
 * Starts a process, and stops it on SIGINT, SIGTERM or the end of its supervisor. A process that cannot start reports
 * the reason to its supervisor, or on standard error. A second signal ends the process at once. SIGHUP makes the
 * process read its secrets again; from a terminal, which sends it when it is closed, it stops the process.
 */
export async function runUntilStopped(start: () => Promise<StartedProcess>): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const starting = Promise.resolve().then(start)
  let has_started = false
  let stopped_at: number | undefined
  // A signal during the start waits for the end of the start, so that nothing half-started remains.
  const stop = (reason: string) => {
    if (stopped_at !== undefined && performance.now() - stopped_at < DUPLICATE_SIGNAL_MS) return
    if (stopped_at !== undefined) process.exit(130)
    stopped_at = performance.now()
    markStopping()
    const limitTime = (limit_ms: number) => setTimeout(() => process.exit(1), limit_ms).unref()
    const start_limit = limitTime(SHUTDOWN_TIMEOUT_MS)
    void starting
      .then(async (started) => {
        clearTimeout(start_limit)
        if (reason === 'SIGTERM') await started.drain?.()
        limitTime(started.shutdown_timeout_ms ?? SHUTDOWN_TIMEOUT_MS)
        started.log?.info({ signal: reason }, 'stopping: finishing the work in progress')
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
  const has_terminal = process.stdin.isTTY || process.stdout.isTTY
  let rereading: Promise<unknown> = starting
  process.on('SIGHUP', (signal) => {
    if (has_terminal) return stop(signal)
    rereading = rereading
      .then(async () => await (await starting).reread?.())
      .catch((error: unknown) => printStatus(errorText(error)))
  })
  onSupervisorExit(() => {
    if (!has_started) process.exit(1)
    if (stopped_at === undefined) stop('the supervisor has ended')
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

/** Writes a line to the console: see `writeToConsole`. */
export function printStatus(line: string, stream?: NodeJS.WriteStream): void {
  writeToConsole(`${line}\n`, stream)
}

/**
 * Writes a text to the console, by default to standard error. A failure is ignored, e.g. a full disk or a closed
 * pipe: the work continues.
 */
export function writeToConsole(text: string, stream: NodeJS.WriteStream = process.stderr): void {
  if (stream.writableLength > MAX_UNREAD_CHARACTERS) return
  try {
    stream.write(text)
  } catch {
    // Files are written synchronously, so an error is thrown here.
  }
}
