// What routes answer, as types: for the pages of the dashboard, by the method and the path that they ask.
import { nameIn, type Document, type Schema } from './document.ts'
import { bodyOf, membersOf } from './schemas.ts'

/** The answers of some routes by `GET /members/{id}`, as one object, with the schemas that have names in `$defs`. */
export type AnswerSchemas = { properties: Record<string, Schema>; $defs?: Record<string, Schema> }

/** The file of the answers: of the routes of the API that read, and of `own`. */
export function answersFile({ paths, components }: Document, routes: AnswerSchemas): string {
  const isOfSdk = (name: string) => components.schemas[name] !== undefined
  // The pages call their parts as their schemas are called.
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
    `/** By what is asked. Paths are those below \`/api\`. */\nexport interface Answers {\n${membersOf({
      properties: answers,
      required: Object.keys(answers),
    }).replaceAll(/^([A-Z]+ [^:]+): /gm, "'$1': ")}\n}`,
  ]
  const schema_names = Object.keys(components.schemas)
  const used = schema_names.filter((name) => text.some((each) => new RegExp(`[:(|<] ?${name}\\b`).test(each)))
  return [
    '// What routes answer to the pages, by their schemas. `npm run sdk` writes this.',
    `import type { ${used.toSorted().join(', ')} } from '#sdk/index.ts'`,
    ...text,
  ].join('\n\n')
}
