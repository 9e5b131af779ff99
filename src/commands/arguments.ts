// Resolves the arguments of commands.
import { ConfigError } from '#core/config.ts'
import { QUEUES } from '#core/config/queues.ts'
import type { Sql } from '#core/db.ts'
import { parseTime } from '#core/time.ts'
import { MAX_REASON_LENGTH, reasonText } from '#domain/jobs/reason.ts'
import { findTenantId } from '#domain/tenants.ts'

/** The command of this name. Errors: ConfigError if it does not exist. */
export function findCommand<T>(commands: Readonly<Record<string, T>>, name: string): T {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command === undefined) throw new ConfigError(`There is no command "${name}". See --help.`)
  return command
}

/**
 * Refuses arguments that a command does not take, such as an option without its dashes. A command takes one argument if
 * a usage line of `help` has a `<placeholder>` after its name, else none. Errors: ConfigError with the usage lines.
 */
export function refuseSurplus([command, ...rest]: readonly string[], help: string): void {
  if (command === undefined) return
  const own = usageLines(help, command)
  const takes = own.some((line) => new RegExp(`-- ${command} +\\[?<`).test(line)) ? 1 : 0
  if (rest.length <= takes) return
  throw new ConfigError(`"${rest[takes]}" is not an argument of "${command}". ${usageOf(help, command)}`)
}

/** Refuses options that a command does not take. Errors: ConfigError with the usage lines. */
export function refuseOptions(
  command: string,
  { given, taken, help }: { given: readonly string[]; taken: readonly string[]; help: string },
): void {
  const other = given.find((name) => !taken.includes(name))
  if (other !== undefined)
    throw new ConfigError(`--${other} is not an option of "${command}". ${usageOf(help, command)}`)
}

/** The usage lines of a help text that name the command. */
function usageLines(help: string, command: string): string[] {
  return usages(help).filter((line) => new RegExp(`npm run \\w+ -- ${command}(?![\\w-])`).test(line))
}

/** The usage of a command; that of the first line of a help text if no line names the command. */
function usageOf(help: string, command: string): string {
  const own = usageLines(help, command)
  return `Usage:\n${(own.length === 0 ? usages(help).slice(0, 1) : own).join('\n')}`
}

function usages(help: string): string[] {
  return help.split('\n').filter((line) => /^ {2}.*npm run /.test(line))
}

/** The value of an option. Errors: ConfigError if the option is missing. */
export function requireOption<Name extends string>(
  values: { readonly [Each in Name]?: string | undefined },
  name: Name,
): string {
  const value = values[name]
  if (value === undefined) throw new ConfigError(`--${name} is missing. See --help.`)
  return value
}

/** The Unix milliseconds of a time in an option. Errors: ConfigError unless it is a time with its zone. */
export function timeOf(text: string, option: string): number {
  const time_ms = parseTime(text)
  if (time_ms === undefined)
    throw new ConfigError(`${option} must be a time with its zone, such as 2026-11-28T09:30:00Z. See --help.`)
  return time_ms
}

/** The operator's reason for the audit log. Errors: ConfigError if it is missing or not valid. */
export function requireReason(values: { reason?: string }): string {
  const { data: reason } = reasonText.safeParse(values.reason)
  if (reason === undefined)
    throw new ConfigError(
      `--reason is missing, longer than ${MAX_REASON_LENGTH} characters, or has control characters. See --help.`,
    )
  return reason
}

/** Checks the queue and finds the tenant. Errors: ConfigError if the queue or the tenant does not exist. */
export async function resolveQueueAndTenant(
  sql: Sql,
  { queue, tenant }: { queue?: string; tenant?: string },
): Promise<{ queue?: string; tenant_id?: string }> {
  if (queue !== undefined && !QUEUES.some((each) => each === queue))
    throw new ConfigError(`There is no queue "${queue}". Queues: ${QUEUES.join(', ')}.`)
  return {
    ...(queue !== undefined && { queue }),
    ...(tenant !== undefined && { tenant_id: await resolveTenant(sql, tenant) }),
  }
}

/** The id of the tenant with this name, or with this id. Errors: ConfigError if it does not exist. */
export async function resolveTenant(sql: Sql, name_or_id: string): Promise<string> {
  const found = await findTenantId(sql, name_or_id)
  if (found === undefined) throw new ConfigError(`There is no tenant "${name_or_id}".`)
  return found
}
