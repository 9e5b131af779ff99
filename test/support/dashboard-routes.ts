// Reads the dashboard's own routes without a running server.
import Fastify, { type RouteOptions } from 'fastify'
import { z } from 'zod'
import type { DashboardContext } from '#dashboard/context.ts'
import { DASHBOARD_ROUTES } from '#dashboard/routes/index.ts'
import type { AnswerSchemas } from '../../sdk/generate/answers.ts'
import type { QuerySchemas } from '../../sdk/generate/filters.ts'

/** The routes as the dashboard registers them, without routes of other packages. */
export async function dashboardRoutes(): Promise<RouteOptions[]> {
  const app = Fastify()
  const routes: RouteOptions[] = []
  app.addHook('onRoute', (route) => {
    if (route.url.startsWith('/api/') && route.method !== 'HEAD') routes.push(route)
  })
  app.setValidatorCompiler(() => () => true)
  app.setSerializerCompiler(() => () => '')
  app.decorateRequest('signed_in')
  // No route is called: only paths and schemas are read.
  const no_context = { config: {}, areas: {}, operations: [] } as unknown as DashboardContext
  for (const add of DASHBOARD_ROUTES) add(app, no_context)
  await app.ready()
  await app.close()
  return routes
}

/** The schemas of successful responses, by method and path, for example `GET /members/{id}`. */
export async function dashboardAnswers(): Promise<AnswerSchemas> {
  const answers: Record<string, z.ZodType> = {}
  for (const { method, url, schema } of await dashboardRoutes()) {
    const responses = (schema?.response ?? {}) as Record<string, z.ZodType>
    const answer = responses[200] ?? responses[201] ?? responses[202]
    if (answer !== undefined) answers[`${String(method)} ${pathOf(url)}`] = answer
  }
  return z.toJSONSchema(z.object(answers), {
    io: 'output',
    unrepresentable: 'any',
  }) as AnswerSchemas
}

/** The query parameters of the GET routes, by path, for example `/members/{id}`. */
export async function dashboardQueries(): Promise<QuerySchemas> {
  const queries = (await dashboardRoutes()).flatMap(({ method, url, schema }) =>
    method === 'GET' && schema?.querystring !== undefined
      ? [[pathOf(url), schema.querystring as z.ZodType] as const]
      : [],
  )
  return z.toJSONSchema(z.object(Object.fromEntries(queries)), {
    io: 'input',
    unrepresentable: 'any',
  }) as QuerySchemas
}

/** The path of a route in the notation of OpenAPI, without `/api`: `/members/{id}` for `/api/members/:id`. */
function pathOf(url: string): string {
  return url.slice('/api'.length).replaceAll(/:(\w+)/g, '{$1}')
}
