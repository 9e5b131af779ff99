// The variables of the rate limit.
import { z } from 'zod'
import { count, type VariableRow } from './row.ts'

/** The default limit of a tenant, as a multiple of the limit of one key. */
export const TENANT_LIMIT_FACTOR = 4

const tenantLimit = z.coerce
  .number()
  .int()
  .positive()
  .max(TENANT_LIMIT_FACTOR * 1_000_000)
  .optional()

export const LIMIT_VARIABLES = {
  RATE_LIMIT_RPS: [count(500), '500', 'requests a second for each API key', ['api']],
  RATE_LIMIT_BURST: [count(2000), '2000', 'requests at once for each API key', ['api']],
  RATE_LIMIT_TENANT_RPS: [
    tenantLimit,
    '2000',
    `requests a second for all keys of a tenant together, and for its people on the dashboard; unset: ${TENANT_LIMIT_FACTOR} times RATE_LIMIT_RPS`,
    ['api'],
  ],
  RATE_LIMIT_TENANT_BURST: [
    tenantLimit,
    '8000',
    `requests at once for all keys of a tenant together; unset: ${TENANT_LIMIT_FACTOR} times RATE_LIMIT_BURST`,
    ['api'],
  ],
} as const satisfies Record<string, VariableRow>
