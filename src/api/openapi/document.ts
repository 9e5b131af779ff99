// The OpenAPI document of the API.
import type { ErrorCode } from '#core/errors.ts'
import { AREAS, AREA_NAMES } from '#domain/areas.ts'
import type { ListedGuide } from '../guides/library.ts'
import { byComponentName, HEADERS, PARAMETERS, SECURITY_SCHEMES } from './components.ts'
import { codesOf, operationOf, type DocumentedRoute } from './operation.ts'
import { errorExamples } from './error.ts'
import { splitByType } from './event-schemas.ts'
import { EVENT_HEADERS, eventsOf } from './events.ts'
import { introduction } from './introduction.ts'
import { createSchemas, type JsonSchema } from './schemas.ts'

const TAGS = [
  ...AREA_NAMES.flatMap((area) => Object.entries(AREAS[area].tags ?? {})),
  ['idempotency', 'The outcome of a request whose answer was lost.'],
  ['test_clock', 'Move the time of your tenant in test mode. [The test clock](/docs/guides/test-clock).'],
].map(([name, description]) => ({ name, description }))

/** The shared `info` of all documents. */
export const DOCUMENT_INFO = {
  version: '1.0.0',
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
}

/**
 * The document of `/v1`. `server`: the URL for requests; `/` means the host that served the document. `origin`: the
 * origin of links. `guides`: all guides.
 */
export function apiDocument(
  routes: DocumentedRoute[],
  { server, origin, guides }: { server: string; origin: string; guides: ListedGuide[] },
): JsonSchema {
  const schemas = createSchemas()
  const paths: Record<string, JsonSchema> = {}
  const codes = new Set<ErrorCode>()
  const timelines = new Map<string, string>()
  for (const route of routes) {
    const { area, tag = area } = route.definition
    for (const code of codesOf(route.definition)) codes.add(code)
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    if (path.endsWith('/timeline') && tag !== null) timelines.set(tag, path)
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, schemas) }
  }
  const webhooks = eventsOf(schemas, timelines)
  splitByType(schemas)
  return {
    openapi: '3.1.1',
    info: {
      title: 'Sluice API',
      summary: 'Customers, payments, captures and refunds; no request lost and no money moved twice.',
      description: introduction(guides),
      ...DOCUMENT_INFO,
    },
    servers: [{ url: server, description: 'This installation.' }],
    externalDocs: { url: `${origin}/docs/guides`, description: 'Guides' },
    tags: TAGS,
    paths: sorted(paths),
    webhooks,
    components: {
      schemas: sorted(schemas.components),
      parameters: byComponentName({ ...PARAMETERS, ...EVENT_HEADERS }),
      headers: byComponentName(HEADERS),
      examples: errorExamples([...codes], origin),
      securitySchemes: SECURITY_SCHEMES,
    },
  }
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
