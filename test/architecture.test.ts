// The layout of the code: allowed imports between layers, no import cycles, bounded files and lines, unique names.
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { RESOURCE_NAMES, callStatuses, resourceOf } from '#domain/resources.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const SRC = join(ROOT, 'src')
/** A longer file becomes a folder of the same name. */
const MAX_LINES = 300

const SOURCE = /\.tsx?$/
const IMPORT = /(?:\bfrom|\bimport|\bimport\()\s*['"]([^'"]+)['"]/g

/** The allowed imports of each layer; `*` allows all imports. `layer/name` allows a file or a folder of a layer. */
const MAY_IMPORT: Record<string, string[]> = {
  core: [],
  jobs: ['core'],
  queue: ['core', 'jobs'],
  providers: ['core'],
  domain: ['core', 'jobs'],
  workers: ['core', 'jobs', 'queue', 'domain', 'providers'],
  api: ['core', 'jobs', 'queue', 'domain'],
  webhooks: [
    'core',
    'jobs',
    'queue',
    'domain',
    'providers/signatures',
    'providers/stripe/events',
    'providers/twilio/events',
  ],
  dashboard: ['core', 'jobs', 'queue', 'domain', 'api'],
  emulators: ['core', 'providers/sandbox'],
  commands: ['core', 'domain', 'queue', 'providers/lists', 'providers/stripe/events', 'start/restored'],
  start: ['*'],
  sdk: [],
}

/** Packages that only the listed layers may import. */
const OWNERS: Record<string, string[]> = {
  bullmq: ['queue'],
  ioredis: ['queue'],
  stripe: ['providers'],
  twilio: ['providers'],
  undici: ['providers'],
  postgres: ['core', 'start'],
  pg: ['queue'],
  fastify: ['core', 'api', 'webhooks', 'dashboard'],
  kysely: ['dashboard'],
  '@bull-board': ['dashboard'],
  react: ['dashboard'],
  '@mantine': ['dashboard'],
  '@tanstack': ['dashboard'],
}

/** Layers outside production: `npm start`, the emulators that it starts, and the SDK, which is a separate package. */
const DEVELOPMENT = ['start', 'emulators', 'sdk']

type Import = { file: string; layer: string; target: string }

async function readImports(): Promise<Import[]> {
  const found: Import[] = []
  for (const [path, text] of await readSources(['src', 'sdk/src'])) {
    const file = path.replace(/^src\//, '')
    for (const [, target] of text.matchAll(IMPORT))
      found.push({ file, layer: file.split('/')[0]!, target: target! })
  }
  return found
}

/** The pages in the browser: they import the SDK and no server code. */
const isWeb = (file: string) => file.startsWith('dashboard/web/')

/** What the emulators and the sandboxes of test mode share. */
const isSandbox = (file: string) => file.startsWith('providers/sandbox/')
const isEngine = (file: string) => file.startsWith('providers/sandbox/stripe/')
/** All that these files import, except for their own: no sockets, no files, no database. */
const ENGINE_IMPORTS = ['#core/money.ts', 'node:crypto']
const RULES_IMPORTS = ['node:timers/promises']
/** The files of production code that use them. */
const SANDBOX_USERS = ['acts', 'clients', 'host', 'lines', 'memory', 'sms'].map(
  (name) => `workers/sandbox/${name}.ts`,
)

function isAllowed({ file, layer, target }: Import): boolean {
  if (isWeb(file) && target.startsWith('#')) return target.startsWith('#sdk/')
  if (isSandbox(file))
    return target.startsWith('.') || (isEngine(file) ? ENGINE_IMPORTS : RULES_IMPORTS).includes(target)
  const allowed_imports = MAY_IMPORT[layer]
  if (allowed_imports === undefined) return false
  // The SDK is a separate package and also runs without Node.
  if (layer === 'sdk') return target.startsWith('.')
  if (target.startsWith('#')) {
    const name = target.slice(1).replace(/\.ts$/, '')
    const [other] = name.split('/')
    return (
      other !== layer &&
      allowed_imports.some((each) => each === '*' || name === each || name.startsWith(`${each}/`))
    )
  }
  const owners = OWNERS[target.split('/')[0]!]
  return owners === undefined || owners.includes(layer)
}

function staysWithinLayer({ file, layer, target }: Import): boolean {
  if (!target.startsWith('.')) return true
  const to = join(file, '..', target)
  if (isWeb(file) !== isWeb(to)) return false
  if (isSandbox(file) && !isSandbox(to)) return false
  return to.split('/')[0] === layer && (SOURCE.test(target) || (isWeb(to) && target.endsWith('.css')))
}

/** Whether production code outside of the engine imports a file of the engine. */
function usesSandbox({ file, layer, target }: Import): boolean {
  if (DEVELOPMENT.includes(layer) || isSandbox(file)) return false
  return isSandbox(target.startsWith('.') ? join(file, '..', target) : target.slice(1))
}

test('each layer imports only what the table of allowed imports permits', async () => {
  const all = await readImports()
  expect(all.length).toBeGreaterThan(150)
  expect(all.filter((one) => !isAllowed(one)).map(({ file, target }) => `${file} imports ${target}`)).toEqual(
    [],
  )
})

test('relative imports stay within their layer and contain the extension of the file', async () => {
  const astray = (await readImports()).filter((one) => !staysWithinLayer(one))
  expect(astray.map(({ file, target }) => `${file} imports ${target}`)).toEqual([])
})

test('of production code, only named files import what the emulators and the sandboxes share', async () => {
  const users = (await readImports()).filter(usesSandbox).map(({ file }) => file)
  expect([...new Set(users)].sort()).toEqual(SANDBOX_USERS)
})

test('the dependencies in package.json are exactly the packages that production processes import', async () => {
  const { dependencies } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  const production = (await readImports()).filter(
    ({ file, layer, target }) =>
      !isWeb(file) && !DEVELOPMENT.includes(layer) && !/^(?:[.#]|node:)/.test(target),
  )
  const names = new Set(production.map(({ target }) => /^(?:@[^/]+\/)?[^/]+/.exec(target)![0]))
  // The regular expression for imports also matches SQL such as `from 'paid'`, so only installed packages count.
  const packages = [...names].filter((name) => existsSync(join(ROOT, 'node_modules', name)))
  expect(packages.sort()).toEqual(Object.keys(dependencies).sort())
})

test('every layer has a row in the table of allowed imports', async () => {
  const layers = (await readdir(SRC, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
  expect(layers.filter((layer) => !(layer in MAY_IMPORT))).toEqual([])
})

/** The source files of the folders: path from the root to text. */
async function readSources(folders: string[]): Promise<Map<string, string>> {
  const found = new Map<string, string>()
  for (const folder of folders)
    for (const name of await readdir(join(ROOT, folder), { recursive: true }))
      if (SOURCE.test(name)) {
        const file = join(folder, name)
        found.set(file, await readFile(join(ROOT, file), 'utf8'))
      }
  return found
}

/** Maps each file to the files that it imports, types included. */
async function importGraph(files: Map<string, string>): Promise<Map<string, string[]>> {
  const manifest = await readFile(join(ROOT, 'package.json'), 'utf8')
  const { imports: aliases } = JSON.parse(manifest) as { imports: Record<string, string> }
  const graph = new Map<string, string[]>()
  for (const [file, text] of files) {
    const targets = Array.from(text.matchAll(IMPORT), ([, target]) => {
      const [layer, ...rest] = target!.split('/')
      const alias = aliases[`${layer}/*`]
      return alias === undefined ? join(dirname(file), target!) : join(alias.replace('*', rest.join('/')))
    })
    graph.set(
      file,
      targets.filter((target) => files.has(target)),
    )
  }
  return graph
}

/** An import cycle, with its first file at both ends. Undefined without a cycle. */
function findCycle(graph: Map<string, string[]>): string[] | undefined {
  const visited = new Set<string>()
  const visit = (file: string, path: string[]): string[] | undefined => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (visited.has(file)) return undefined
    for (const target of graph.get(file) ?? []) {
      const cycle = visit(target, [...path, file])
      if (cycle !== undefined) return cycle
    }
    visited.add(file)
    return undefined
  }
  for (const file of graph.keys()) {
    const cycle = visit(file, [])
    if (cycle !== undefined) return cycle
  }
  return undefined
}

test('no import cycle exists, types included', async () => {
  const graph = await importGraph(
    await readSources(['src', 'sdk/src', 'test', 'bench', 'deploy', 'fuzz', 'torture']),
  )
  expect([...graph.values()].flat().length).toBeGreaterThan(500)
  expect(findCycle(graph)).toBe(undefined)
})

test('the search for import cycles finds a cycle', () => {
  const graph = new Map([
    ['a.ts', ['b.ts', 'c.ts']],
    ['b.ts', []],
    ['c.ts', ['d.ts']],
    ['d.ts', ['c.ts']],
  ])
  expect(findCycle(graph)).toEqual(['c.ts', 'd.ts', 'c.ts'])
})

test('no file outside the tests is longer than 300 lines', async () => {
  const files = await readSources(['src', 'sdk/src', 'sdk/generate', 'bench', 'deploy', 'fuzz', 'torture'])
  const written = [...files].filter(([file]) => !file.includes('/generated/'))
  const long = written.filter(([, text]) => text.trimEnd().split('\n').length > MAX_LINES)
  expect(long.map(([file]) => file)).toEqual([])
})

/** The formatter wraps neither comments nor the lines of template literals. */
const MAX_COLUMNS = 120
const SQL_TEMPLATE = /(?<![`.\w])(?:sql|tx)(?:<[^`]*?>)?\s*`/g

/** The lines of template literals with the tag `sql` or `tx`, nested ones included. */
function sqlLines(text: string): string[] {
  return Array.from(text.matchAll(SQL_TEMPLATE)).flatMap(({ 0: tag, index }) => {
    // The closing delimiters of the open template literals and placeholders.
    const closing = ['`']
    let end = index + tag.length
    for (; closing.length > 0 && end < text.length; end++) {
      const [sign, in_template] = [text[end], closing.at(-1) === '`']
      if (sign === '\\') end += 1
      else if (sign === closing.at(-1)) closing.pop()
      else if (sign === '`') closing.push('`')
      else if (sign === '{' && (!in_template || text[end - 1] === '$')) closing.push('}')
    }
    const start = text.lastIndexOf('\n', index) + 1
    return text.slice(start, text.indexOf('\n', end)).split('\n')
  })
}

const COMMENT_LINE = /^\s*(?:\/[/*]|\*)/

/** The lines of comments, without the directives of the linter, which must be one line. */
function commentLines(text: string): string[] {
  return text.split('\n').filter((line) => COMMENT_LINE.test(line) && !line.includes('oxlint-disable'))
}

test('no line of a comment is longer than 120 columns', async () => {
  const folders = ['src', 'sdk/src', 'sdk/generate', 'test', 'bench', 'deploy', 'fuzz', 'torture']
  const sources = await readSources(folders)
  const lines = [...sources]
    .filter(([file]) => !file.includes('/generated/'))
    .flatMap(([file, text]) => commentLines(text).map((line) => ({ file, line })))
  expect(lines.length).toBeGreaterThan(5000)
  expect(lines.filter(({ line }) => line.length > MAX_COLUMNS)).toEqual([])
})

test('no line of SQL is longer than 120 columns', async () => {
  const files = [...(await readSources(['src']))]
  const lines = files.flatMap(([file, text]) => sqlLines(text).map((line) => ({ file, line })))
  expect(lines.length).toBeGreaterThan(1000)
  expect(lines.filter(({ line }) => line.length > MAX_COLUMNS)).toEqual([])
})

test('the search for long SQL lines finds a long line, and ignores a long comment after the template literal', () => {
  const inner = 'x'.repeat(130)
  const text = `sql<{ a: string; b: 1 }[]>\`select \${a({ b: sql\`c\` })}\n${inner}\`\n// ${inner}\n`
  expect(sqlLines(text).filter((line) => line.length > MAX_COLUMNS)).toEqual([`${inner}\``])
})

/** An unanchored regular expression with a repetition of fifty or more: its run time is quadratic. */
const LONG_SEARCH =
  /[(=!:,?&|] ?\/(?!\^)(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])*\{(?:[5-9]\d|\d{3,})(?:,\d*)?\}(?:\\.|[^/\\\n])*\//
/** A check after `max`: without `abort`, zod runs the check even on a text that is too long. */
const UNBOUNDED_CHECK =
  /z\s*\.string\(\)(?:\s*\.\w+\([^(){}]*\))*?\s*\.max\([^(){}]*\)\s*\.(?:regex|refine|superRefine|overwrite)\(/

test('searches in texts of callers run in linear time', async () => {
  const files = await readSources(['src'])
  const findFiles = (pattern: RegExp) =>
    Array.from(files)
      .filter(([path, text]) => path.endsWith('.ts') && pattern.test(text))
      .map(([path]) => path)
  expect(findFiles(LONG_SEARCH)).toEqual([])
  expect(findFiles(UNBOUNDED_CHECK)).toEqual([])
  for (const violation of [
    'line(998).refine((value) => !/[\\x21-\\x7e]{991}/.test(value))',
    'x = /[^a/]{50,}b/',
  ])
    expect(LONG_SEARCH.test(violation)).toBe(true)
  expect(LONG_SEARCH.test('(/^[0-9a-f]{64}$/i.test(value))')).toBe(false)
  expect(UNBOUNDED_CHECK.test('z\n  .string()\n  .min(1)\n  .max(most)\n  .refine(isLine)')).toBe(true)
})

test('only the ledger writes accounts and transfers', async () => {
  const writes = /\b(?:insert into|update|delete from) ledger_/
  const writers = [...(await readSources(['src']))]
    .filter(([, text]) => writes.test(text))
    .map(([file]) => file)
  expect(writers).toEqual(['src/domain/ledger.ts'])
})

/**
 * The emulators, which are separate programs, and the engine of the Stripe emulator. Both use the terms of providers,
 * such as `Refund`, for their own types.
 */
const isEmulatorOrEngine = (file: string) => /^src\/(?:emulators|providers\/sandbox)\//.test(file)
/** The pages in the browser are a separate program: they cannot import server code. */
const isPage = (file: string) => file.startsWith('src/dashboard/web/')
const DECLARATION =
  /^(?:export (?:async )?(?:function\*?|const|class)|(?:export )?(?:type|interface)) (\w+)/gm

/** Names that two files export, and types that two files declare, each with the files. */
function sharedNames(files: Iterable<[file: string, text: string]>): string[] {
  const owners = new Map<string, string[]>()
  for (const [file, text] of files)
    for (const name of new Set(Array.from(text.matchAll(DECLARATION), ([, name]) => name!)))
      owners.set(name, [...(owners.get(name) ?? []), file])
  return [...owners].filter(([, of]) => of.length > 1).map(([name, of]) => `${name}: ${of.join(', ')}`)
}

test('exported names and names of types are unique', async () => {
  const files = [...(await readSources(['src']))]
  const programs = [isEmulatorOrEngine, isPage, (file: string) => !isEmulatorOrEngine(file) && !isPage(file)]
  for (const program of programs) expect(sharedNames(files.filter(([file]) => program(file)))).toEqual([])
  expect(sharedNames(await readSources(['sdk/src']))).toEqual([])
})

test('the search for shared names finds a name that two files export', () => {
  const files = { 'a.ts': 'export type Place = 1\n', 'b.ts': 'type Place = 2\nexport const other = 1\n' }
  expect(sharedNames(Object.entries(files))).toEqual(['Place: a.ts, b.ts'])
})

/** Verbs that may not begin the name of a function that only returns a part of a statement: a part is not executed. */
const IMPERATIVE =
  /^(?:add|append|assign|begin|cancel|check|claim|close|compute|count|create|delete|enqueue|erase|fence|find|finish|import|insert|judge|lift|list|lock|open|post|read|refuse|release|remove|reserve|resume|send|set|settle|store|suppress|update|write)(?:$|[A-Z])/
const FRAGMENT_FUNCTION = /function (\w+)\((?:(?!\n\}|\bfunction )[\s\S])*?\): Fragment \{/g

function fragmentFunctions(text: string): string[] {
  return Array.from(text.matchAll(FRAGMENT_FUNCTION), ([, name]) => name!)
}

test('a function that returns a part of a statement is named by a gerund or a noun', async () => {
  const files = [
    ...(await readSources(['src/domain', 'src/jobs', 'src/workers', 'test/support/resource/src'])),
  ]
  const names = files.flatMap(([, text]) => fragmentFunctions(text))
  expect(names.length).toBeGreaterThan(150)
  expect(names.filter((name) => IMPERATIVE.test(name))).toEqual([])
})

test('the check of the names of functions that return SQL fragments detects an imperative verb', () => {
  const text =
    'export async function findRows(sql: Sql): Promise<Row[]> {\n}\nfunction storeKeys(\n  { a }: { a: 1 },\n): Fragment {\n}\n'
  expect(fragmentFunctions(text)).toEqual(['storeKeys'])
  expect(
    ['storeKeys', 'insert', 'storingKeys', 'insertedRows', 'newEvents'].map((name) => IMPERATIVE.test(name)),
  ).toEqual([true, true, false, false, false])
})

test('the terms of the glossary are in alphabetical order, and its files exist', async () => {
  const rows = (await readFile(join(ROOT, 'docs/glossary.md'), 'utf8'))
    .split('\n')
    .filter((line) => line.startsWith('| ') && line.endsWith('` |'))
  const terms = rows.map((row) => row.split('|')[1]!.trim())
  expect(terms.length).toBeGreaterThan(15)
  expect(terms).toEqual(terms.toSorted())
  for (const row of rows)
    for (const [, file] of row
      .split('|')
      .at(-2)!
      .matchAll(/`([^`]+)`/g))
      expect((await readFile(join(ROOT, file!), 'utf8')).length, file).toBeGreaterThan(0)
})

test('the check of imports finds a domain file that imports a provider', () => {
  expect(isAllowed({ file: 'domain/x.ts', layer: 'domain', target: '#providers/payments.ts' })).toBe(false)
  expect(isAllowed({ file: 'api/x.ts', layer: 'api', target: 'bullmq' })).toBe(false)
  expect(isAllowed({ file: 'sdk/src/x.ts', layer: 'sdk', target: 'node:crypto' })).toBe(false)
  expect(isAllowed({ file: 'dashboard/web/x.tsx', layer: 'dashboard', target: '#domain/areas.ts' })).toBe(
    false,
  )
  expect(staysWithinLayer({ file: 'dashboard/web/x.tsx', layer: 'dashboard', target: '../app.ts' })).toBe(
    false,
  )
  expect(isAllowed({ file: 'webhooks/x.ts', layer: 'webhooks', target: '#providers/payments.ts' })).toBe(
    false,
  )
  expect(isAllowed({ file: 'webhooks/x.ts', layer: 'webhooks', target: '#providers/signatures.ts' })).toBe(
    true,
  )
  expect(isAllowed({ file: 'webhooks/x.ts', layer: 'webhooks', target: '#providers/stripe/events.ts' })).toBe(
    true,
  )
  expect(isAllowed({ file: 'webhooks/x.ts', layer: 'webhooks', target: '#providers/stripe/client.ts' })).toBe(
    false,
  )
})

test('the check of imports finds an emulator that imports a client of a provider', () => {
  const emulator = { file: 'emulators/stripe/x.ts', layer: 'emulators' }
  expect(isAllowed({ ...emulator, target: '#providers/sandbox/stripe/engine.ts' })).toBe(true)
  for (const target of ['#providers/stripe/client.ts', '#providers/sandboxes.ts', 'stripe'])
    expect([target, isAllowed({ ...emulator, target })]).toEqual([target, false])
})

test('the check of imports finds an engine that imports more than it needs', () => {
  const engine = { file: 'providers/sandbox/stripe/x.ts', layer: 'providers' }
  for (const target of ['#core/money.ts', 'node:crypto', './store.ts'])
    expect([target, isAllowed({ ...engine, target })]).toEqual([target, true])
  for (const target of ['#core/pool.ts', 'node:net', 'node:fs/promises', 'node:timers/promises', 'undici'])
    expect([target, isAllowed({ ...engine, target })]).toEqual([target, false])
  expect(staysWithinLayer({ ...engine, target: '../../http.ts' })).toBe(false)
})

test('the check of imports finds production code that imports the engine', () => {
  const users = [
    { file: 'workers/x.ts', layer: 'workers', target: '#providers/sandbox/stripe/engine.ts' },
    { file: 'providers/stripe/x.ts', layer: 'providers', target: '../sandbox/stripe/engine.ts' },
  ]
  expect(users.filter(usesSandbox)).toEqual(users)
  const others = [
    { file: 'emulators/stripe/x.ts', layer: 'emulators', target: '#providers/sandbox/stripe/engine.ts' },
    { file: 'providers/sandbox/stripe/x.ts', layer: 'providers', target: './engine.ts' },
    { file: 'workers/x.ts', layer: 'workers', target: '#providers/stripe/client.ts' },
  ]
  expect(others.filter(usesSandbox)).toEqual([])
})

/** Uses of time, chance and output, and code that waits: a request is performed in one step, by one clock. */
const IMPURE =
  /\b(?:Date\.now|new Date\(\)|performance\.|setTimeout|setInterval|setImmediate|Math\.random|console\.|process\.|fetch\(|await )/g

function impureUses(text: string): string[] {
  return Array.from(text.matchAll(IMPURE), ([use]) => use)
}

test('the engine of the Stripe emulator has no timers, no output and a single clock', async () => {
  const found = [...(await readSources(['src/providers/sandbox/stripe']))].flatMap(([file, text]) =>
    impureUses(text).map((use) => `${file}: ${use}`),
  )
  expect(found).toEqual(['src/providers/sandbox/stripe/engine.ts: Date.now'])
})

test('the check of the engine finds timers, output and clocks', () => {
  const text = 'setTimeout(run, 1)\nconsole.error(new Date())\nfor await (const a of new Date(0).b) {}\n'
  expect(impureUses(text)).toEqual(['setTimeout', 'console.', 'new Date()', 'await '])
})

/**
 * Names and terms of providers. Comments must not contain them either: a second provider would make the comments wrong.
 */
const VOCABULARY =
  /payment_intent|['"`]charge\b|\b(?:pi|re|pyr|ch|pm|evt|whsec)_[A-Za-z0-9]|\bstripe\b|\bSTRIPE_/i
/** Files that may name a provider: its own files and the composition of the program. */
const MAY_NAME_PROVIDERS = /^src\/(?:providers|emulators|start|core\/config)[/.]|\/stripe\.ts$/

function findProviderTerm(text: string): string | undefined {
  const own = text.split('\n').filter((line) => !/^(?:import\b|\} from )/.test(line))
  return own.find((line) => VOCABULARY.test(line))?.trim()
}

test('only a provider’s own files use its terms', async () => {
  const others = [...(await readSources(['src']))].filter(([file]) => !MAY_NAME_PROVIDERS.test(file))
  expect(others.length).toBeGreaterThan(150)
  const found = others.flatMap(([file, text]) => {
    const line = findProviderTerm(text)
    return line === undefined ? [] : [`${file}: ${line}`]
  })
  expect(found).toEqual([])
})

test("the check of provider terms finds a term outside the provider's own files", () => {
  for (const line of [
    "if (told.object === 'payment_intent')",
    "example: 'pi_3SV'",
    "provider: 'stripe'",
    '// as Stripe does',
    "need(config, 'STRIPE_SECRET_KEY')",
    "kind === 'charge.refunded'",
  ])
    expect(findProviderTerm(`const a = 1\n${line}\n`)).toBe(line)
  expect(findProviderTerm("import { SENDER } from './stripe.ts'\nlimit.charge(1)\n")).toBe(undefined)
})

const DOCUMENT = join(ROOT, 'docs/architecture.md')
const ROW = /^\| `(\w+)` \| [^|]+ \|([^|]*)\|$/gm
const PATH = /`((?:src|sdk|test|docs|migrations|deploy|torture|fuzz|bench)\/[^`\s]*)`/g

test('docs/architecture.md contains the table of allowed imports, and the files that it names exist', async () => {
  const text = await readFile(DOCUMENT, 'utf8')
  const layers = text.slice(text.indexOf('## Layers'), text.indexOf('## The way of a capture'))
  const table = Array.from(layers.matchAll(ROW), ([, layer, allowed_imports]) => [
    layer,
    allowed_imports!.trim() === 'everything'
      ? ['*']
      : Array.from(allowed_imports!.matchAll(/`([^`]+)`/g), ([, name]) => name),
  ])
  expect(Object.fromEntries(table)).toEqual(MAY_IMPORT)
  const files = Array.from(text.matchAll(PATH), ([, file]) => file!)
  // The document also names files of the example resource, which are in test/support/resource.
  const exists = (file: string) =>
    existsSync(join(ROOT, file)) ||
    existsSync(join(ROOT, 'test/support/resource', file.replace('NNNN', '0900')))
  expect(files.length).toBeGreaterThan(40)
  expect(files.filter((file) => !exists(file))).toEqual([])
  const folders = (await readdir(join(SRC, 'core'), { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => `src/core/${name}/`)
  expect(folders.filter((folder) => !files.includes(folder))).toEqual([])
})

test("the statuses in the definition of a resource are values of the resource's status column", () => {
  for (const resource of RESOURCE_NAMES) {
    const { view, under_way, at_provider } = resourceOf(resource)
    const used = [
      ...callStatuses(resource),
      ...(under_way?.statuses ?? []),
      ...Object.values(at_provider?.agreeing_statuses ?? {}).flat(),
    ]
    const { status } = view.shape
    const statuses = status instanceof z.ZodEnum ? status.options : []
    expect([resource, used.filter((each) => !statuses.includes(each))]).toEqual([resource, []])
  }
})

test('published migrations do not change', async () => {
  const folder = join(ROOT, 'migrations')
  const published = (await readFile(join(folder, 'SHA256SUMS'), 'utf8')).trim().split('\n')
  const now = await Promise.all(
    published.map(async (line) => {
      const [, name] = line.split('  ')
      const text = await readFile(join(folder, name!))
      return `${createHash('sha256').update(text).digest('hex')}  ${name}`
    }),
  )
  expect(now).toEqual(published)
})
