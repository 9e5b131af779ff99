// Runs the parts as child processes and restarts a part that dies. No part outlives this process: a part exits when the
// IPC channel closes, for example because this process was killed.
import { fork, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { ConfigError } from '#core/config.ts'
import { LOG_DESCRIPTOR, type Addresses, type StartReport } from '#core/supervised.ts'
import { createRestartDelays } from './restart-delays.ts'
import type { Program } from './programs.ts'

/** The file descriptor of the common log in a part. Descriptor 3 is the IPC channel. */
const LOG_FD = 4

export type SupervisedPart = {
  name: string
  /** The addresses of the part; undefined while the part is not ready. */
  addresses: () => Addresses | undefined
  /**
   * Resolves when the part is ready for the first time. Rejects with the part's reported reason if the part exits
   * earlier; it is not restarted in this case.
   */
  ready: Promise<Addresses>
  /** Sends a signal to the part, if it runs. */
  signal: (signal: NodeJS.Signals) => void
  /** Stops the part after it has finished work in progress. It is not restarted. */
  end: () => Promise<void>
}

export type SupervisorOptions = {
  /** Open file descriptor of the common log. */
  log_descriptor: number
  /** Called after each start of a part. */
  onStart: (name: string, pid: number) => void
  /** Receives a line for the terminal when a part dies and when it is back. */
  notify: (line: string) => void
  /** Called with each line that a part writes to standard output. */
  onOutputLine: (name: string, line: string) => void
}

/** Starts a part. Once the part has been ready, it is restarted whenever it dies. */
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
  // Kills the part when this process exits: a frozen part would not notice the closed channel.
  process.once('exit', () => child?.kill('SIGKILL'))
  first.promise.catch(() => {})
  return {
    name,
    addresses: () => addresses,
    ready: first.promise,
    signal: (signal) => void child?.kill(signal),
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
  /** The part is ready. */
  ready: (addresses: Addresses) => void
  /** The process exited or could not be started. `refusal`: the reason that it reported before. */
  onExit: (how: string, refusal: string | undefined) => void
}

/** Starts the process of a part. Undefined if the process cannot be started; `onExit` has been called then. */
function startChild(
  program: Program,
  { log_descriptor, onStart, notify, onOutputLine }: SupervisorOptions,
  { ready, onExit }: ChildCallbacks,
): ChildProcess | undefined {
  let child: ChildProcess
  try {
    child = fork(program.file, program.args, {
      // The part has its own process group: Ctrl-C signals only this process, which stops the parts in order.
      detached: true,
      // The same limit as in the scripts of package.json.
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
    // The record could not be written, for example because the disk is full. The part works without it: the record is
    // only needed if this process is killed.
    notify(`The start of the ${program.name} could not be recorded (${(error as Error).message}).`)
  }
  // The output is missing if the system has no file descriptor left.
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
    // The last message of the process may still be in the channel.
    if (child.connected) child.once('disconnect', () => finish(how))
    else finish(how)
  })
  // The process could not be started, or a signal could not be sent.
  child.on('error', (error) => {
    if (child.pid === undefined) finish(error.message)
  })
  return child
}
