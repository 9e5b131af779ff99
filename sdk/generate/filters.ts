// The filters of lists, as a table: for the pages of the dashboard, by the path that they read.
import { nameIn, type Document, type Schema } from './document.ts'

/** The query parameters of some routes by their path, as one object, with the schemas that have names in `$defs`. */
export type QuerySchemas = { properties: Record<string, Schema>; $defs?: Record<string, Schema> }

/** The parameters that choose a page of a list. */
const PAGING = ['before', 'after', 'limit']
/** A parameter that takes more values than this is a text: nobody chooses from so many. */
const MAX_VALUES = 20

/** The file of the filters: of the lists of the API, and of those in `own`. */
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
  return `// What lists can be filtered by. \`npm run sdk\` writes this.

/** By path and parameter: its values without the default, or what it takes instead. */
export const LIST_FILTERS = ${JSON.stringify(lists)} as const`
}

function valuesOf(schema: Schema, schemas: Record<string, Schema>): string | string[] {
  if (schema.$ref !== undefined) return valuesOf(schemas[nameIn(schema.$ref)]!, schemas)
  const { enum: values, format, type } = schema
  if (values !== undefined && values.length <= MAX_VALUES)
    return values.filter((value) => value !== schema.default).map(String)
  return format === 'date-time' ? format : String(type)
}
