// Runs the parts as child processes: one that dies is started again, and none outlives us. A part ends by itself when the
// channel between us is gone, as when we are killed.
import { fork, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { ConfigError } from '#core/config.ts'
import { LOG_DESCRIPTOR, type Addresses, type StartReport } from '#core/supervised.ts'
import { createRestartDelays } from './pauses.ts'
import type { Program } from './programs.ts'

/** The place of the common log among the descriptors of a part; the channel to us is the one before. */
const LOG_FD = 4

export type SupervisedPart = {
  name: string
  /** Where it listens; undefined while it is not ready. */
  addresses: () => Addresses | undefined
  /**
   * Resolves when it is ready for the first time. Rejects when it ends before, with what it said: it will not be started
   * again.
   */
  ready: Promise<Addresses>
  /** Lets it finish what is in flight; it is not started again. */
  end: () => Promise<void>
}

export type SupervisorOptions = {
  /** The open file of the common log. */
  log_descriptor: number
  /** Each time that a part has been started. */
  onStart: (name: string, pid: number) => void
  /** A line for people, each time that a part has died, and when it is back. */
  notify: (line: string) => void
  /** A line that a part has written to its standard output. */
  onOutputLine: (name: string, line: string) => void
}

/** Starts a part, and again whenever it dies after it was ready once. */
export function supervise(program: Program, options: SupervisorOptions): SupervisedPart {
  const { name } = program
  const first = Promise.withResolvers<Addresses>()
  const ended = Promise.withResolvers<void>()
  let child: ChildProcess | undefined
  let addresses: Addresses | undefined
  let was_ready = false
  let ending = false
  let started_at = 0
  const delayAfter = createRestartDelays(options.notify)
  let restart_timer: NodeJS.Timeout | undefined

  function begin(): void {
    started_at = performance.now()
    child = startChild(program, options, { ready, onExit })
  }

  function ready(at: Addresses): void {
    if (was_ready) options.notify(`The ${name} is back.`)
    addresses = at
    was_ready = true
    first.resolve(addresses)
  }

  function onExit(how: string, refusal: string | undefined): void {
    child = undefined
    addresses = undefined
    if (ending) return ended.resolve()
    if (!was_ready) {
      first.reject(new ConfigError(refusal || `The ${name} ended while starting (${how}).`))
      return ended.resolve()
    }
    const reason = refusal === undefined ? how : `${how}: ${refusal.split('\n')[0]}`
    restart_timer = setTimeout(
      begin,
      delayAfter(`The ${name} ended (${reason}).`, performance.now() - started_at),
    )
  }

  begin()
  // Nothing that ends us leaves a part behind; a part that is frozen would not notice by itself.
  process.once('exit', () => child?.kill('SIGKILL'))
  first.promise.catch(() => {})
  return {
    name,
    addresses: () => addresses,
    ready: first.promise,
    async end() {
      ending = true
      clearTimeout(restart_timer)
      if (child === undefined) return
      child.kill('SIGTERM')
      await ended.promise
    },
  }
}

type ChildCallbacks = {
  /** It works. */
  ready: (addresses: Addresses) => void
  /** It has ended, or could not be started. `refusal`: what it said before. */
  onExit: (how: string, refusal: string | undefined) => void
}

/** Starts the process of a part; undefined if it could not be started, after `died`. */
function startChild(
  program: Program,
  { log_descriptor, onStart, notify, onOutputLine }: SupervisorOptions,
  { ready, onExit }: ChildCallbacks,
): ChildProcess | undefined {
  let child: ChildProcess
  try {
    child = fork(program.file, program.args, {
      // A group of its own: Ctrl-C in the terminal is for us, and we tell the parts in their order.
      detached: true,
      // As the scripts of package.json have it.
      execArgv: ['--max-old-space-size=512'],
      stdio: ['ignore', 'pipe', 'inherit', 'ipc', log_descriptor],
      env: { ...process.env, ...program.env, [LOG_DESCRIPTOR]: String(LOG_FD) },
    })
  } catch (error) {
    onExit((error as Error).message, undefined)
    return undefined
  }
  try {
    if (child.pid !== undefined) onStart(program.name, child.pid)
  } catch (error) {
    // The disk may be full. It runs all the same, and is only not found should we be killed.
    notify(`The start of the ${program.name} could not be recorded (${(error as Error).message}).`)
  }
  // There is none when the system has no descriptor left.
  if (child.stdout != null)
    createInterface({ input: child.stdout }).on('line', (line) => onOutputLine(program.name, line))
  let refusal: string | undefined
  child.on('message', (report: StartReport) => {
    if ('refused' in report) refusal = report.refused
    else ready(report.ready)
  })
  let exited = false
  const finish = (how: string) => {
    if (exited) return
    exited = true
    onExit(how, refusal)
  }
  child.once('exit', (code, signal) => {
    const how = signal ?? `exit code ${code}`
    // What it told before it ended may still be on its way.
    if (child.connected) child.once('disconnect', () => finish(how))
    else finish(how)
  })
  // It could not even be started, or a signal not be sent.
  child.on('error', (error) => {
    if (child.pid === undefined) finish(error.message)
  })
  return child
}
