// Reads routes and response schemas from the OpenAPI document.
import { z } from 'zod'
import type { Client } from './client.ts'

export type DocumentedRoute = {
  method: string
  /** The path as in the document: `/v1/customers/{id}`. */
  path: string
  operation: any
  /** The error codes that the document lists for the route. */
  codes: string[]
}

/** Reads the document that an API serves. */
export async function readDocument(client: Client): Promise<any> {
  return (await client.get('/openapi.json')).body
}

/** All routes of a document. */
export function routesOf(document: any): DocumentedRoute[] {
  return Object.entries<any>(document.paths).flatMap(([path, item]) =>
    Object.entries<any>(item).map(([method, operation]) => ({
      method: method.toUpperCase(),
      path,
      operation,
      codes: Object.values<any>(operation.responses).flatMap((response) =>
        Array.from(String(response.description).matchAll(/`([a-z_]+)`: /g), ([, code]) => code!),
      ),
    })),
  )
}

/** The schema of a response, as a zod type. */
export function schemaOf(document: any, route: DocumentedRoute, status: number): z.ZodType {
  const response = route.operation.responses[status]
  if (response === undefined) throw new Error(`${route.method} ${route.path} documents no ${status}`)
  const schema = response.content['application/json'].schema
  const with_definitions = {
    ...schema,
    $defs: Object.fromEntries(usedBy(schema, document.components.schemas)),
  }
  return z.fromJSONSchema(
    JSON.parse(JSON.stringify(with_definitions).replaceAll('#/components/schemas/', '#/$defs/')),
  )
}

/** The schemas to which a schema refers directly or indirectly. The keys are their names. */
function usedBy(schema: object, schemas: Record<string, object>): Map<string, object> {
  const used = new Map<string, object>()
  const open: object[] = [schema]
  for (let each = open.pop(); each !== undefined; each = open.pop())
    for (const [, name] of JSON.stringify(each).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (used.has(name!)) continue
      used.set(name!, schemas[name!]!)
      open.push(schemas[name!]!)
    }
  return used
}
