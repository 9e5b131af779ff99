// Areas that are not built yet: their paths answer `misconfigured_gateway` instead of 404.
import type { FastifyInstance } from 'fastify'
import { AppError } from '#core/errors.ts'
import { AREAS, AREA_NAMES, type Scope } from '#domain/areas.ts'

export function areaRoutes(app: FastifyInstance): void {
  for (const area of AREA_NAMES) {
    const { tags, paths, planned_posts = {} } = AREAS[area]
    if (tags !== undefined) continue
    const refuse = (method: 'all' | 'post', path: string, scope: Scope | null) =>
      app[method](path, { schema: { hide: true }, config: { area, scope } }, () => {
        throw new AppError('misconfigured_gateway', { context: { area } })
      })
    for (const path of paths) {
      refuse('all', path, null)
      refuse('all', `${path}/*`, null)
    }
    // A key without the scope gets `missing_scope` first.
    for (const [path, scope] of Object.entries(planned_posts)) refuse('post', path, scope)
  }
}
