// Starts the processes of the system under torture, each with a log of its own.
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { PARTS, type PartName } from '#test/parts.ts'
import { startProcess, type Process } from '#test/process.ts'

/** A process that can be restarted on the same port. */
export type Member = {
  name: string
  process(): Process
  /** Default: SIGKILL. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /**
   * Starts the process with its previous options; the given options replace them, also for later starts. With
   * `output`, the descriptor of its log, the function does not wait until the process is ready.
   */
  start(options?: { root?: string; env?: Record<string, string>; output?: number | undefined }): Promise<void>
}

export type LauncherOptions = {
  /** The folder whose sources are run: the project's, or a copy. */
  root: string
  /** Called with each log line of a process. */
  onOutputLine: (name: string, line: string) => void
  /** Called when a process ends unexpectedly. */
  onEnd: (name: string, how: string) => void
}

type Launch = {
  ready?: string
  args?: string[]
  env?: Record<string, string>
  root?: string
  output?: number | undefined
}

/** `isStopping`: whether the system stops, so that the end of a process is expected. `cleanup` ends the members. */
export function createLauncher(
  folder: string,
  cleanup: AsyncDisposableStack,
  isStopping: () => boolean,
  { root, onOutputLine, onEnd }: LauncherOptions,
) {
  async function launch(name: string, file: string, how: Launch): Promise<Process> {
    const log = createWriteStream(join(folder, 'logs', `${name}.log`), { flags: 'a' })
    const started = await startProcess(file, {
      root,
      ...how,
      onOutputLine(line) {
        log.write(`${line}\n`)
        onOutputLine(name, line)
      },
    })
    void started.ended.then(() => log.end())
    return started
  }
  async function startMember(name: string, part: PartName, env: Record<string, string>): Promise<Member> {
    const { file, ready } = PARTS[part]
    let options: NonNullable<Parameters<Member['start']>[0]> = {}
    const stopped_by_us = new WeakSet<Process>()
    const start = async () => {
      const { output } = options
      const started = await launch(name, file, {
        ...(output === undefined && { ready }),
        output,
        root: options.root ?? root,
        env: { ...env, ...options.env },
      })
      void started.ended.then(
        ({ code, signal }) =>
          stopped_by_us.has(started) || isStopping() || onEnd(name, String(signal ?? code)),
      )
      return started
    }
    let current = await start()
    cleanup.defer(async () => void (await current.end()))
    return {
      name,
      process: () => current,
      async kill(signal) {
        stopped_by_us.add(current)
        await current.end(signal)
      },
      async start(changes = {}) {
        options = { ...options, ...changes }
        current = await start()
      },
    }
  }

  return { launch, startMember }
}

/** Stops the process with SIGTERM, and starts it from the sources in `root`. */
export async function deploy(member: Member, root: string): Promise<void> {
  await member.kill('SIGTERM')
  await member.start({ root })
}
