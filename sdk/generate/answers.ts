// Generates the response types of GET routes for the dashboard's pages, keyed by method and path.
import { nameIn, type Document, type Schema } from './document.ts'
import { bodyOf, membersOf } from './schemas.ts'

/** Response schemas of the dashboard's own routes, keyed `GET /members/{id}`. `$defs` has the named schemas. */
export type AnswerSchemas = { properties: Record<string, Schema>; $defs?: Record<string, Schema> }

/** The source of `answers.ts`: responses of all GET routes of the API, and of the routes in `routes`. */
export function answersFile({ paths, components }: Document, routes: AnswerSchemas): string {
  const isOfSdk = (name: string) => components.schemas[name] !== undefined
  // A named schema of the dashboard gets the suffix `Shape`.
  const own = JSON.parse(JSON.stringify(routes), (key, value: unknown) =>
    key === '$ref' && !isOfSdk(nameIn(value as string)) ? `${value as string}Shape` : value,
  ) as AnswerSchemas
  const answers: Record<string, Schema> = {}
  for (const [path, { get }] of Object.entries(paths)) {
    const body = get?.responses['200']
    if (body?.content?.['application/json'] !== undefined) answers[`GET ${path}`] = bodyOf(body)
  }
  Object.assign(answers, own.properties)
  const text = [
    ...Object.entries(own.$defs ?? {})
      .filter(([name]) => !isOfSdk(name))
      .map(([name, schema]) => `interface ${name}Shape {\n${membersOf(schema)}\n}`),
    `/** Responses by method and path. Paths are relative to \`/api\`. */\nexport interface Answers {\n${membersOf(
      {
        properties: answers,
        required: Object.keys(answers),
      },
    ).replaceAll(/^([A-Z]+ [^:]+): /gm, "'$1': ")}\n}`,
  ]
  const schema_names = Object.keys(components.schemas)
  const used = schema_names.filter((name) => text.some((each) => new RegExp(`[:(|<] ?${name}\\b`).test(each)))
  return [
    '// Responses of the routes that the pages read. `npm run sdk` writes this.',
    `import type { ${used.toSorted().join(', ')} } from '#sdk/index.ts'`,
    ...text,
  ].join('\n\n')
}
