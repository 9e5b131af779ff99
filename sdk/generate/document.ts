// The subset of an OpenAPI document that the generator reads, and helpers for names and comments.

export type Schema = {
  $ref?: string
  type?: string | string[]
  format?: string
  enum?: (string | number | null)[]
  const?: string | number | boolean
  anyOf?: Schema[]
  oneOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: Schema | boolean
  description?: string
  default?: unknown
}
export type Parameter = {
  $ref?: string
  name: string
  in: string
  description?: string
  required?: boolean
  schema: Schema
}
type Content = { content?: Record<string, { schema: Schema }> }
export type Operation = {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  parameters?: Parameter[]
  requestBody?: Content & { required?: boolean }
  responses: Record<string, Content>
}
export type Document = {
  paths: Record<string, Record<string, Operation>>
  webhooks: Record<string, { post: Operation }>
  components: { schemas: Record<string, Schema> }
  tags: { name: string; description: string }[]
}

const COLUMNS = 100

/** The name of the schema or parameter that a `$ref` points to. */
export function nameIn(reference: string): string {
  return reference.split('/').at(-1)!
}

/** `top_ups` is `topUps`. */
export function camelCase(name: string): string {
  return name.replaceAll(/_(\w)/g, (_match, letter: string) => letter.toUpperCase())
}

/** `top_ups` is `TopUps`, `listCustomers` is `ListCustomers`. */
export function pascalCase(name: string): string {
  return camelCase(`_${name}`)
}

/** A doc comment with these paragraphs and a trailing line break; empty if there are none. */
export function comment(...paragraphs: (string | undefined)[]): string {
  const text = paragraphs.filter(Boolean).join('\n\n')
  if (text === '') return ''
  // Links to the guides are removed: their base URL depends on the installation.
  const plain = text
    .replaceAll(/ \[[^\]]+\]\(\/docs[^)]*\)\.(?=\s|$)/g, '')
    .replaceAll(/\[([^\]]+)\]\(\/docs[^)]*\)/g, '$1')
    .replaceAll('*/', '*\\/')
  const lines = plain.split('\n').flatMap(wrapLines)
  if (lines.length === 1) return `/** ${lines[0]} */\n`
  return `/**\n${lines.map((line) => ` * ${line}`.trimEnd()).join('\n')}\n */\n`
}

function wrapLines(paragraph: string): string[] {
  const lines = ['']
  for (const word of paragraph.split(' ')) {
    const last = lines.at(-1)!
    if (last !== '' && last.length + word.length >= COLUMNS) lines.push(word)
    else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`
  }
  return lines
}
