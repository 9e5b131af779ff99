// The type of controls, and readers of their bodies.
import { parameterRefused } from '#providers/sandbox/stripe/errors.ts'
import type { Params } from '#providers/sandbox/stripe/parse.ts'
import type { Control } from '../shared/controls.ts'
import type { Emulator } from './emulator.ts'

export type StripeControl = Control<Emulator, Params>

/** The requested `status` of a body. Throws Refusal if it is not allowed. */
export function statusOf<T extends string>(body: Record<string, unknown>, allowed: readonly T[]): T {
  const status = allowed.find((each) => each === body['status'])
  if (status === undefined)
    throw parameterRefused(`Invalid status: must be one of ${allowed.join(', ')}`, 'status')
  return status
}

/** A JSON body as the parameters of an operation. */
export function asParams(body: Record<string, unknown>): Params {
  const params: Params = {}
  for (const [name, value] of Object.entries(body)) {
    if (typeof value === 'object' && value !== null) params[name] = asParams(value as Record<string, unknown>)
    else if (typeof value === 'string') params[name] = value
    else if (typeof value === 'number' || typeof value === 'boolean') params[name] = String(value)
  }
  return params
}
