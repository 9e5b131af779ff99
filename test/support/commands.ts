// Runs the product's commands to their end.
import { execFile } from 'node:child_process'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { runCommandWith, type CommandEntry } from '#commands/program.ts'
import { COMPILE_CACHE } from './process.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** The environment of a user account without a name, which many containers have. */
export const WITHOUT_USER_NAME = {
  NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(`
    import os from 'node:os'; import { syncBuiltinESMExports } from 'node:module'
    os.userInfo = () => { throw new Error('uv_os_get_passwd') }; syncBuiltinESMExports()`)}`,
}

export type CommandResult = { code: number; stdout: string; stderr: string }

/**
 * Runs `node <file> <args>` with only this environment. `file` is relative to the project's folder. Default of `cwd`:
 * the project's folder.
 */
export async function runCommand(
  file: string,
  args: string[],
  env: NodeJS.ProcessEnv = {},
  cwd: string = ROOT,
): Promise<CommandResult> {
  return await new Promise((end) => {
    execFile(
      process.execPath,
      [resolve(ROOT, file), ...args],
      { cwd, env: { PATH: process.env.PATH, ...COMPILE_CACHE, ...env }, timeout: 150_000 },
      (error, stdout, stderr) =>
        end({
          code: error === null ? 0 : typeof error.code === 'number' ? error.code : -1,
          stdout,
          stderr,
        }),
    )
  })
}

/**
 * Runs a command in this process, which takes a hundredth of the time of a process, with only this environment.
 * `answers`: the lines with which its questions are answered; they are read when it asks.
 */
export async function runHere(
  command: CommandEntry,
  args: string[],
  env: NodeJS.ProcessEnv = {},
  answers: string | AsyncIterable<string> = '',
): Promise<CommandResult> {
  const [stdout, stderr]: [string[], string[]] = [[], []]
  const output = {
    stdout: { write: (text: string) => stdout.push(text) },
    stderr: { write: (text: string) => stderr.push(text) },
    stdin: Readable.from(typeof answers === 'string' ? [answers] : answers),
  }
  const code = await runCommandWith(output, command, args, env)
  return { code, stdout: stdout.join(''), stderr: stderr.join('') }
}
