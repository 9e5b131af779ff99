// What a control of the emulator is, and reading its body.
import type { Exchange } from '../shared/http.ts'
import type { Emulator } from './emulator.ts'
import { parameterRefused } from './errors.ts'
import type { Params } from './parse.ts'

export type Control = (
  emulator: Emulator,
  id: string,
  body: Record<string, unknown>,
  query: Params,
  exchange: Exchange,
) => unknown

/** The `status` that a body asks for. */
export function statusOf<T extends string>(body: Record<string, unknown>, allowed: readonly T[]): T {
  const status = allowed.find((each) => each === body['status'])
  if (status === undefined)
    throw parameterRefused(`Invalid status: must be one of ${allowed.join(', ')}`, 'status')
  return status
}

/** A text, if the body has it. */
export function textOf(body: Record<string, unknown>, name: string): string | undefined {
  const value = body[name]
  return typeof value === 'string' ? value : undefined
}

/** A flat JSON body as the parameters of an operation. */
export function asParams(body: Record<string, unknown>): Params {
  const params: Params = {}
  for (const [name, value] of Object.entries(body)) {
    if (typeof value === 'object' && value !== null) params[name] = asParams(value as Record<string, unknown>)
    else if (typeof value === 'string') params[name] = value
    else if (typeof value === 'number' || typeof value === 'boolean') params[name] = String(value)
  }
  return params
}
