// Areas whose routes are still to come: their paths answer `misconfigured_gateway`, not that they do not exist.
import type { FastifyInstance } from 'fastify'
import { AREAS, areaStates } from '#core/areas.ts'
import { AppError } from '#core/errors.ts'
import type { Scope } from '#domain/api-keys.ts'

/** Routes that the interface names: a key without their scope is told so first. */
const NAMED: Record<string, Scope> = {
  '/v1/messages/email': 'messaging:write',
  '/v1/messages/sms': 'messaging:write',
  '/v1/payouts/:id/fail': 'payouts:write',
  '/v1/compliance/kyc/:id/decide': 'compliance:write',
}

export function areaRoutes(app: FastifyInstance): void {
  for (const area of areaStates([]).not_deployed) {
    const refuse = (method: 'all' | 'post', path: string, scope: Scope | null) =>
      app[method](path, { schema: { hide: true }, config: { area, scope } }, () => {
        throw new AppError('misconfigured_gateway', { context: { area } })
      })
    for (const path of AREAS[area].paths) {
      refuse('all', path, null)
      refuse('all', `${path}/*`, null)
      for (const [named, scope] of Object.entries(NAMED))
        if (named.startsWith(`${path}/`)) refuse('post', named, scope)
    }
  }
}
