// Generates TypeScript types from the schemas of the OpenAPI document.
import { comment, nameIn, type Document, type Schema } from './document.ts'

const RESOURCE_OF_TYPE = 'Type extends `${infer ResourceName}.${string}` ? ResourceName : never'

/** The source of `schemas.ts`: all named schemas except events. */
export function schemasFile(document: Document): string {
  const { webhooks, components } = document
  const event_schemas = [
    'FeedEvent',
    ...components.schemas['FeedEvent']!.oneOf!.map(({ $ref }) => nameIn($ref!)),
    ...Object.values(webhooks).map(({ post }) => nameIn(bodyOf(post.requestBody!).$ref!)),
  ]
  const types = Object.entries(components.schemas)
    .filter(([name]) => !event_schemas.includes(name))
    .map(([name, schema]) => declarationOf(name, schema))
  return ['// Resources and request bodies of the API.', ...types].join('\n\n')
}

/** The source of `events.ts`: the events by type. */
export function eventsFile({ webhooks, components }: Document): string {
  const resolveRef = ({ $ref }: Schema) => components.schemas[nameIn($ref!)]!
  const data = Object.entries(webhooks).map(([type, { post }]) => {
    const [full_data] = propertyOf(resolveRef(bodyOf(post.requestBody!)), 'data').anyOf!
    return { type, name: typeOf(full_data!), description: post.description!.split(' `GET ')[0] }
  })
  const names = [...new Set(data.map(({ name }) => name)), 'TruncatedData'].toSorted()
  const delivered = resolveRef(bodyOf(webhooks[data[0]!.type]!.post.requestBody!))
  const listed = resolveRef(components.schemas['FeedEvent']!.oneOf![0]!)
  return [
    '// Events and their data, by type.',
    `import type { ${names.join(', ')} } from './schemas.ts'`,
    `/** The data of each event type: a snapshot of its resource. */
export interface EventDataByType {
${data.map(({ type, name, description }) => `${comment(description)}'${type}': ${name}`).join('\n')}
}`,
    '/** Types of events. New types can be added at any time: ignore types that you do not handle. */\nexport type EventType = keyof EventDataByType',
    `/** An event of the feed. \`event.type\` narrows the type of \`event.data\`. */
export type FeedEvent = { [Type in EventType]: FeedEventOf<Type> }[EventType]`,
    `/** An event of the feed with this type. */
export interface FeedEventOf<Type extends EventType> ${eventBody(listed, 'EventDataByType[Type]')}`,
    `/** A webhook event. \`event.type\` narrows the type of \`event.data\`. */
export type WebhookEvent = { [Type in EventType]: WebhookEventOf<Type> }[EventType]`,
    `/** A webhook event with this type. */
export interface WebhookEventOf<Type extends EventType> ${eventBody(delivered, 'EventDataByType[Type] | TruncatedData')}`,
  ].join('\n\n')
}

/** The TypeScript type of a schema. */
export function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return nameIn(schema.$ref)
  if (schema.const !== undefined) return literal(schema.const)
  if (schema.enum !== undefined) return union(schema.enum.map(literal))
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives !== undefined) return union(alternatives.map(typeOf))
  const types = [schema.type ?? []].flat()
  return types.length === 0 ? 'unknown' : union(types.map((type) => typeOfKind(type, schema)))
}

/** The members of an object type, one on each line. */
export function membersOf({ properties = {}, required = [] }: Schema): string {
  return Object.entries(properties)
    .map(([name, schema]) => {
      const optional = required.includes(name) ? '' : '?'
      return `${comment(...describe(schema))}${name}${optional}: ${typeOf(schema)}`
    })
    .join('\n')
}

/** The schema of a JSON request body or response. Throws for other media types. */
export function bodyOf({ content = {} }: { content?: Record<string, { schema: Schema }> }): Schema {
  const json = content['application/json']
  if (json === undefined) throw new Error(`Not a JSON body: ${Object.keys(content).join()}`)
  return json.schema
}

function declarationOf(name: string, schema: Schema): string {
  const head = comment(...describe(schema))
  if (schema.properties === undefined) return `${head}export type ${name} = ${typeOf(schema)}`
  return `${head}export interface ${name} {\n${membersOf(withOptionalKey(schema))}\n}`
}

/** Request bodies: `idempotency_key` is optional, because the client generates a missing key. */
function withOptionalKey(schema: Schema): Schema {
  const isSent = schema.additionalProperties === false
  return isSent
    ? { ...schema, required: schema.required?.filter((name) => name !== 'idempotency_key') }
    : schema
}

function eventBody(schema: Schema, data: string): string {
  const members = Object.entries(schema.properties!).map(([name, each]) => {
    const type = { type: 'Type', subject_type: RESOURCE_OF_TYPE, data }[name] ?? typeOf(each)
    return `${comment(...describe(each))}${name}: ${type}`
  })
  return `{\n${members.join('\n')}\n}`
}

function describe({ description, default: default_value }: Schema): (string | undefined)[] {
  const isPlain = ['string', 'number', 'boolean'].includes(typeof default_value)
  return [description, isPlain ? `\`Default: \`${JSON.stringify(default_value)}\`.` : undefined]
}

function typeOfKind(type: string, schema: Schema): string {
  switch (type) {
    case 'string':
    case 'boolean':
    case 'null':
      return type
    case 'integer':
    case 'number':
      return 'number'
    case 'array': {
      const item = typeOf(schema.items!)
      return item.includes(' ') ? `(${item})[]` : `${item}[]`
    }
    case 'object': {
      if (schema.properties !== undefined) return `{\n${membersOf(schema)}\n}`
      const { additionalProperties: value } = schema
      return `Record<string, ${typeof value === 'object' ? typeOf(value) : 'unknown'}>`
    }
    default:
      throw new Error(`No type for ${type}`)
  }
}

function propertyOf(schema: Schema, name: string): Schema {
  return schema.properties![name]!
}

function literal(value: string | number | boolean | null): string {
  return typeof value === 'string' ? `'${value}'` : String(value)
}

function union(types: string[]): string {
  return [...new Set(types)].join(' | ')
}
