// The columns of the table of variables.
import { z } from 'zod'
import { problemOfNetwork } from '../public-addresses.ts'
import { list } from './list.ts'

/**
 * `commands`: keys, audit and other commands. `start` reads all variables. The dashboard serves the API's routes and
 * so reads the variables of the API.
 */
export type ProcessName = 'api' | 'webhooks' | 'worker' | 'dashboard' | 'migrate' | 'commands' | 'start'
/** The processes that serve the API and perform its jobs. */
export const SERVICES = ['api', 'webhooks', 'worker'] as const satisfies ProcessName[]
export const ALL_PROCESSES = [...SERVICES, 'migrate', 'commands'] as const satisfies ProcessName[]

export type VariableRow = readonly [
  schema: z.ZodType,
  example: string,
  about: string,
  read_by: readonly ProcessName[],
  /** The processes that do not start without the variable. */
  required_by?: readonly ProcessName[],
  /** The queues that need the variable: a worker that serves none of them starts without it. */
  serving_queues?: readonly string[],
]

/**
 * The schemas of secrets, which can also be in files. `is_reread`: a running process uses a new value of the file after
 * SIGHUP.
 */
export const SECRETS = z.registry<{ is_reread: boolean }>()

/** A whole number from 1 to `max`. Default: `default_value`. */
export const count = (default_value: number, max = 1_000_000) =>
  z.coerce.number().int().positive().max(max).default(default_value)
const anyPort = z.coerce.number().int().min(0).max(65535)
/** A port. Default: `default_value`. */
export const port = (default_value: number) => anyPort.default(default_value)
/** A port, or none. */
export const optionalPort = anyPort.optional()
/** The base URL of a server. Slashes at its end are removed. */
export const baseUrl = z.url({ protocol: /^https?$/ }).transform((url) => url.replace(/\/+$/, ''))
/** Several values, separated by commas. */
export const commaList = z.string().default('').transform(list)
/** Adds the problem of the first part that is not a network in CIDR notation. */
export const networks = z
  .string()
  .transform(list)
  .check((payload) => {
    const problem = payload.value.map(problemOfNetwork).find((found) => found !== null)
    if (problem !== undefined) payload.issues.push({ code: 'custom', message: problem, input: payload.value })
  })
