// Generates the table of list filters for the dashboard's pages, keyed by path.
import { nameIn, type Document, type Schema } from './document.ts'

/** Query parameters of the dashboard's own routes, keyed by path. `$defs` has the named schemas. */
export type QuerySchemas = { properties: Record<string, Schema>; $defs?: Record<string, Schema> }

/** Paging parameters are not filters. */
const PAGING = ['before', 'after', 'limit']
/** A parameter with more values is a text field: the list would be too long for a select. */
const MAX_VALUES = 20

/** The source of `filters.ts`: filters of all lists of the API, and of the lists in `own`. */
export function filtersFile({ paths, components }: Document, own: QuerySchemas): string {
  const schemas = { ...components.schemas, ...own.$defs }
  const lists: Record<string, Record<string, string | string[]>> = {}
  const add = (path: string, parameters: [name: string, schema: Schema][]) => {
    const names = parameters.map(([name]) => name)
    if (!names.includes('before') && !names.includes('after')) return
    const filters = parameters.filter(([name]) => !PAGING.includes(name))
    if (filters.length === 0) return
    lists[path] = Object.fromEntries(filters.map(([name, schema]) => [name, valuesOf(schema, schemas)]))
  }
  for (const [path, { get }] of Object.entries(paths))
    add(
      path,
      (get?.parameters ?? [])
        .filter((parameter) => parameter.in === 'query')
        .map(({ name, schema }) => [name, schema]),
    )
  for (const [path, { properties }] of Object.entries(own.properties))
    add(path, Object.entries(properties ?? {}))
  return `// The filters of each list. \`npm run sdk\` writes this.

/** By path and parameter: the enum values except the default, or the type of the value. */
export const LIST_FILTERS = ${JSON.stringify(lists)} as const`
}

function valuesOf(schema: Schema, schemas: Record<string, Schema>): string | string[] {
  if (schema.$ref !== undefined) return valuesOf(schemas[nameIn(schema.$ref)]!, schemas)
  const { enum: values, format, type } = schema
  if (values !== undefined && values.length <= MAX_VALUES)
    return values.filter((value) => value !== schema.default).map(String)
  return format === 'date-time' ? format : String(type)
}
