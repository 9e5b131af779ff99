// Runs a command as the program of this process, or within a process that goes on, such as a test.
import { AppError } from '#core/errors.ts'
import { errorText } from '#core/startup.ts'
import { output, terminalLines, type Output } from './print.ts'

/** A command: its arguments, and the variables of its environment. Returns its exit code. Default: 0. */
export type CommandEntry = (args: string[], env: NodeJS.ProcessEnv) => Promise<number | void>

/** Runs a command. An error is printed, and its exit code is 1. */
export async function runCommandWith(
  to: Output,
  command: CommandEntry,
  args: string[],
  env: NodeJS.ProcessEnv,
): Promise<number> {
  try {
    return (await output.run(to, () => command(args, env))) ?? 0
  } catch (error) {
    // The message may be one of a server that is not trusted.
    to.stderr.write(`${terminalLines(error instanceof AppError ? error.message : errorText(error))}\n`)
    return 1
  }
}

/** Runs a command with the arguments and the environment of this process. */
export async function runAsProgram(command: CommandEntry): Promise<void> {
  process.exitCode = await runCommandWith(process, command, process.argv.slice(2), process.env)
}
