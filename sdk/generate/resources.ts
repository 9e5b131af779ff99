// Generates one class for each resource of the OpenAPI document, with a method for each operation.
import {
  camelCase,
  comment,
  nameIn,
  pascalCase,
  type Document,
  type Operation,
  type Parameter,
  type Schema,
} from './document.ts'
import { bodyOf, membersOf, typeOf } from './schemas.ts'

/**
 * Method names follow the path: `POST /v1/wallet/top_ups` is `wallet.topUps.create`; a segment after an id is the
 * method, so `POST /v1/payments/{id}/capture` is `payments.capture(id)`. These operations are the exceptions. `id`
 * names the path parameter.
 */
const EXCEPTIONS: Record<string, { name: string; id?: string }> = {
  createRefund: { name: 'refunds.create', id: 'payment_id' },
  listRefunds: { name: 'refunds.list', id: 'payment_id' },
  listAllRefunds: { name: 'refunds.listAll' },
  listWebhookDeliveries: { name: 'webhookDeliveries.list', id: 'endpoint_id' },
  getIdempotencyKey: { name: 'idempotencyKeys.list' },
  sendEmail: { name: 'messages.sendEmail' },
  sendEmails: { name: 'messages.sendEmailBatch' },
  sendSms: { name: 'messages.sendSms' },
  sendManySms: { name: 'messages.sendSmsBatch' },
  getTestClock: { name: 'testClock.retrieve' },
  advanceTestClock: { name: 'testClock.advance' },
}
/** Default method names, for paths that end in a name and for paths that end in an id. */
const VERBS: Record<string, Record<string, string>> = {
  name: { get: 'list', post: 'create' },
  id: { get: 'retrieve', patch: 'update', delete: 'delete' },
}

type Method = { name: string; code: string; type_names: string[]; query: string | undefined }
/** `path` is the member path from the client: `['wallet', 'topUps']`. */
type Group = {
  path: string[]
  methods: Method[]
  children: Group[]
  tag: string | undefined
  description?: string
}

/** The source file of each resource by path, and `resources.ts`, which has all of them. */
export function resourceFiles(document: Document): Map<string, string> {
  const root: Group = { path: [], methods: [], children: [], tag: undefined }
  for (const [path, operations] of Object.entries(document.paths))
    for (const [verb, operation] of Object.entries(operations)) {
      const name = EXCEPTIONS[operation.operationId]?.name ?? nameOf(verb, path, operation)
      const group = groupAt(root, name.split('.').slice(0, -1))
      group.tag ??= operation.tags[0]
      group.methods.push(methodOf(name, verb, path, operation, document))
    }
  const all = descendants(root)
  const resource_names = new Set(all.map(({ path }) => path.at(-1)!))
  for (const group of all) {
    // A tag that names another resource does not describe this one.
    const tag =
      document.tags.find(({ name }) => camelCase(name) === group.path.at(-1)) ??
      document.tags.find(({ name }) => name === group.tag && !resource_names.has(camelCase(name)))
    if (tag !== undefined) group.description = tag.description
  }
  return new Map([
    ...all.map((group): [string, string] => [fileOf(group), groupFile(group)]),
    ['resources.ts', rootFile(root)],
  ])
}

function nameOf(verb: string, path: string, { operationId }: Operation): string {
  const segments = path.split('/').slice(2)
  const id_index = segments.findIndex((segment) => segment.startsWith('{'))
  const [group, rest] =
    id_index === -1 ? [segments, []] : [segments.slice(0, id_index), segments.slice(id_index + 1)]
  if (rest.length > 1) throw new Error(`${operationId} needs an entry in EXCEPTIONS`)
  const default_method = VERBS[id_index === -1 ? 'name' : 'id']![verb]
  const method = rest[0] ?? (operationId.startsWith('archive') ? 'archive' : default_method)
  if (method === undefined) throw new Error(`${operationId} needs an entry in EXCEPTIONS`)
  return [...group, method].map(camelCase).join('.')
}

function groupAt(root: Group, path: string[]): Group {
  let group = root
  for (const [depth, name] of path.entries()) {
    let next = group.children.find((child) => child.path.at(-1) === name)
    if (next === undefined) {
      next = { path: path.slice(0, depth + 1), methods: [], children: [], tag: undefined }
      group.children.push(next)
    }
    group = next
  }
  return group
}

function descendants(group: Group): Group[] {
  return group.children.flatMap((child) => [child, ...descendants(child)])
}

function methodOf(
  method_path: string,
  verb: string,
  path: string,
  operation: Operation,
  document: Document,
): Method {
  const { operationId, summary, description, requestBody, responses } = operation
  const name = method_path.split('.').at(-1)!
  const parameters = operation.parameters ?? []
  const content_members: string[] = []
  const parameter_code: string[] = []
  const type_names: string[] = []
  const use = (schema: Schema) => {
    const type = typeOf(schema)
    type_names.push(type.replace('[]', ''))
    return type
  }
  const id = EXCEPTIONS[operationId]?.id
  for (const parameter of parameters.filter((each) => each.in === 'path'))
    parameter_code.push(`${id ?? parameter.name}: string`)
  const address = path.replaceAll(/\{(\w+)\}/g, (_match, param: string) => `\${pathSegment(${id ?? param})}`)
  const target = address === path ? `'${path}'` : `\`${address}\``

  const filters = parameters.filter((each) => each.in === 'query')
  const queryName = `${pascalCase(operationId)}Query`
  if (filters.length > 0) {
    parameter_code.push(`query?: ${queryName}`)
    content_members.push('query')
  }
  if (requestBody !== undefined) {
    const optional = requestBody.required === true ? '' : '?'
    parameter_code.push(`body${optional}: ${use(bodyOf(requestBody))}`)
    content_members.push('body')
  }
  const key = keyOf(verb, operation, document)
  if (key !== undefined) content_members.push(`key: '${key}'`)
  parameter_code.push('options?: RequestOptions')

  const [, answer] = Object.entries(responses).find(([status]) => status.startsWith('2'))!
  const schema = bodyOf(answer)
  const paged = schema.type === 'array' && filters.some((each) => ['before', 'after'].includes(each.name))
  const result = use(paged ? schema.items! : schema)
  const content = content_members.length > 0 ? `{ ${content_members.join(', ')} }` : '{}'
  const call = paged
    ? `return this.pages(${target}, query, options)`
    : `return this.send('${verb.toUpperCase()}', ${target}, ${content}, options)`
  const returns = paged ? `Pages<${result}>` : `Answer<${result}>`
  return {
    name,
    type_names: [
      ...type_names,
      paged ? 'Pages' : 'Answer',
      ...(target.includes('pathSegment(') ? ['pathSegment'] : []),
    ],
    query: filters.length > 0 ? queryType(queryName, method_path, filters) : undefined,
    code: `${comment(`${summary}.`, description, `\`${verb.toUpperCase()} ${path}\``)}${name}(${parameter_code.join(', ')}): ${returns} {\n${call}\n}`,
  }
}

/**
 * How a POST can be retried: with an idempotency key in the header, with keys of its messages, or without a key because
 * it changes nothing.
 */
function keyOf(verb: string, operation: Operation, document: Document): string | undefined {
  if (verb !== 'post') return undefined
  const references = (operation.parameters ?? []).map(({ $ref }) => $ref && nameIn($ref))
  if (references.includes('IdempotencyKey')) return 'header'
  const { $ref } = bodyOf(operation.requestBody!)
  const { messages } = document.components.schemas[nameIn($ref!)]!.properties!
  return messages === undefined ? 'needless' : 'messages'
}

function queryType(name: string, of: string, filters: Parameter[]): string {
  const properties = filters.map((each): [string, Schema] => [
    each.name,
    { ...each.schema, ...(each.description !== undefined && { description: each.description }) },
  ])
  const schema: Schema = { properties: Object.fromEntries(properties) }
  return `${comment(`Query parameters of \`${of}\`.`)}export interface ${name} {\n${membersOf(schema)}\n}`
}

function groupFile(group: Group): string {
  const { path, methods, children, description } = group
  const queries = methods.flatMap(({ query }) => query ?? [])
  const type_names = new Set(methods.flatMap((method) => method.type_names))
  // Filter types are schema names, strings or numbers. Only schema names are imported.
  for (const query of queries)
    for (const [, type] of query.matchAll(/\?: ([A-Z]\w+)$/gm)) type_names.add(type!)
  const runtime = ['Answer', 'Pages']
  const own = new Set([...runtime, 'pathSegment', 'Record<string, string>'])
  const events = ['FeedEvent'].filter((type) => type_names.has(type))
  const schemas = [...type_names].filter(
    (type) => !own.has(type) && !events.includes(type) && type !== 'Record',
  )
  const source_path = path.length > 1 ? '../../..' : '../..'
  const generated = path.length > 1 ? '../..' : '..'
  return [
    `// \`sluice.${path.join('.')}\`.`,
    [
      type_names.has('Answer') && `import type { Answer } from '${source_path}/answer.ts'`,
      methods.length > 0 && `import type { RequestOptions } from '${source_path}/client.ts'`,
      type_names.has('Pages') && `import type { Pages } from '${source_path}/pages.ts'`,
      `import { ${type_names.has('pathSegment') ? 'pathSegment, ' : ''}Resource } from '${source_path}/resource.ts'`,
      events.length > 0 && `import type { ${events.join(', ')} } from '${generated}/events.ts'`,
      schemas.length > 0 && `import type { ${schemas.toSorted().join(', ')} } from '${generated}/schemas.ts'`,
      ...children.map(
        (child) =>
          `import { ${className(child)} } from './${kebabCase(path.at(-1)!)}/${kebabCase(child.path.at(-1)!)}.ts'`,
      ),
    ]
      .filter(Boolean)
      .join('\n'),
    ...queries,
    `${comment(description)}export class ${className(group)} extends Resource {\n${[
      children.map(memberOf).join('\n'),
      ...methods.map(({ code }) => code),
    ]
      .filter(Boolean)
      .join('\n\n')}\n}`,
  ].join('\n\n')
}

function rootFile({ children }: Group): string {
  return [
    '// All resources.',
    [
      "import { Resource } from '../resource.ts'",
      ...children.map(
        (child) => `import { ${className(child)} } from './resources/${kebabCase(child.path.at(-1)!)}.ts'`,
      ),
    ].join('\n'),
    `/** One member for each resource of the API. */\nexport class Resources extends Resource {\n${children.map(memberOf).join('\n')}\n}`,
  ].join('\n\n')
}

function memberOf(child: Group): string {
  return `${comment(child.description)}readonly ${child.path.at(-1)} = new ${className(child)}(this.client)`
}

function fileOf({ path }: Group): string {
  return `resources/${path.map(kebabCase).join('/')}.ts`
}

function className({ path }: Group): string {
  return `${path.map(pascalCase).join('')}Resource`
}

/** `topUps` is `top-ups`. */
function kebabCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
}
