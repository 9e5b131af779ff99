// The packed SDK works in an empty folder with all examples of the guides and READMEs.
import { execFile } from 'node:child_process'
import { access, mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { afterAll, beforeAll, expect } from 'vitest'
import { createTemporaryFolder } from '#test/folders.ts'
import { testIn } from '#test/world.ts'

const ROOT = join(import.meta.dirname, '..')
const GUIDES = join(ROOT, 'docs/guides')
const run = promisify(execFile)
/** The oldest supported Node.js, if this machine has it. */
const SYSTEM_NODE = '/usr/bin/node'

let folder: Awaited<ReturnType<typeof createTemporaryFolder>>
const test = testIn()
beforeAll(async () => {
  folder = await createTemporaryFolder('sdk')
})
afterAll(async () => {
  await folder?.remove()
})

/** The TypeScript examples of a file as one program. Null if the file has none. */
async function programOf(file: string, before: string): Promise<string | null> {
  const text = await readFile(file, 'utf8')
  const blocks = Array.from(text.matchAll(/^```ts\n([^]*?)^```/gm), ([, code]) => code!)
  if (blocks.length === 0) return null
  const program = blocks.join('\n')
  // A program that creates no client continues the program of the quickstart.
  const whole = program.includes('new Sluice(') ? program : `${before}\n${program}`
  const imports = /^import \{([^}]+)\} from '@sluice\/sdk'\n/gm
  const names = new Set(
    Array.from(whole.matchAll(imports)).flatMap(([, list]) => list!.split(',').map((name) => name.trim())),
  )
  return `import { ${[...names].join(', ')} } from '@sluice/sdk'\n${whole.replaceAll(imports, '')}`
}

test('the packed SDK works in an empty folder, under strict TypeScript, with every example', async ({
  world,
}) => {
  const { path } = folder
  await run('npm', ['pack', '--pack-destination', path], { cwd: join(ROOT, 'sdk') })
  const [packed] = (await readdir(path)).filter((name) => name.endsWith('.tgz'))
  await writeFile(join(path, 'package.json'), '{ "type": "module", "private": true }')
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(path, packed!)], { cwd: path })

  // The whole SDK as one bundle for a page in the browser.
  const entry = join(path, 'node_modules/@sluice/sdk/dist/index.js')
  const lib = { entry, formats: ['es' as const] }
  const built = await build({ root: path, logLevel: 'error', build: { lib, write: false, minify: true } })
  const [bundle] = [built].flat()
  if (bundle === undefined || !('output' in bundle)) throw new Error('Nothing was built')
  const [{ code }] = bundle.output
  expect(gzipSync(code).length).toBeLessThan(6000)
  expect(code).not.toContain('node:')

  const [begin] = /^import [^]*?^\}\)\n/m.exec(await readFile(join(GUIDES, 'quickstart.md'), 'utf8'))!
  const guides = (await readdir(GUIDES)).filter((name) => name.endsWith('.md'))
  const sources = [
    ...guides.map((name) => join(GUIDES, name)),
    join(ROOT, 'sdk/README.md'),
    join(ROOT, 'README.md'),
  ]
  const programs: string[] = []
  await mkdir(join(path, 'examples'))
  for (const source of sources) {
    const program = await programOf(source, begin)
    if (program === null) continue
    const name = relative(ROOT, source).replace('.md', '').replaceAll('/', '-').toLowerCase()
    programs.push(name)
    await writeFile(join(path, `examples/${name}.ts`), program)
  }
  expect(programs).toEqual(
    expect.arrayContaining(['docs-guides-quickstart', 'docs-guides-refunds', 'sdk-readme', 'readme']),
  )
  await writeFile(join(path, 'examples/page.ts'), PAGE)
  // The examples need only the packages that the guides name. The example for a page needs no packages.
  for (const source of [join(GUIDES, 'quickstart.md'), join(ROOT, 'sdk/README.md')])
    expect(await readFile(source, 'utf8')).toMatch(
      /npm install --save-dev @types\/node`, and\s+`"types": \["node"\]`/,
    )
  const node_types = ['--types', 'node', '--typeRoots', join(ROOT, 'node_modules/@types')]
  const examples = [...node_types, ...programs.map((name) => `examples/${name}.ts`)]
  const page = ['--types', '', 'examples/page.ts']
  const strict = [
    '--ignoreConfig',
    '--strict',
    '--exactOptionalPropertyTypes',
    '--noUncheckedIndexedAccess',
    '--target',
    'es2022',
    '--lib',
    'es2022,dom',
  ]
  const check = async (...options: string[]) =>
    await run(join(ROOT, 'node_modules/.bin/tsc'), [...strict, ...options], { cwd: path }).catch(
      ({ stdout }: { stdout: string }) => {
        throw new Error(stdout)
      },
    )
  for (const files of [examples, page]) {
    await check('--module', 'esnext', '--moduleResolution', 'bundler', '--noEmit', ...files)
    await check('--module', 'nodenext', ...files)
  }

  const node = await access(SYSTEM_NODE).then(
    () => SYSTEM_NODE,
    () => process.execPath,
  )
  const runs = programs.map(async (name) => {
    const env = { SLUICE_URL: world.client.url, SLUICE_KEY: world.client.key }
    const { stdout } = await run(node, [`examples/${name}.js`], { cwd: path, env })
    return [name, stdout.trim().split('\n')]
  })
  const reported = Object.fromEntries(await Promise.all(runs)) as Record<string, string[]>
  expect(reported['docs-guides-quickstart']).toEqual(['captured succeeded'])
  expect(reported['docs-guides-idempotency']).toEqual(['true'])
  expect(reported['docs-guides-refunds']).toEqual(['700'])
  expect(reported['docs-guides-waiting']).toEqual(['true authorized'])
  expect(reported['docs-guides-three-d-secure']).toEqual(['requires_action string'])
  expect(reported['docs-guides-test-methods']).toEqual(['insufficient_funds'])
  expect(reported['readme']!.at(0)).toMatch(/ event payment.created$/)
  expect([reported['sdk-readme']!.at(0), reported['sdk-readme']!.at(-1)]).toEqual(['succeeded', 'authorized'])
})

/**
 * A program that checks types: error codes narrow contexts, event types narrow data, and a wrong field does not
 * compile.
 */
const PAGE = `
import { Sluice, SluiceError, type Page, type Payment } from '@sluice/sdk'
const sluice = new Sluice({ base_url: '/api' })
export async function show(id: string): Promise<Page<Payment>> {
  try {
    await sluice.payments.capture(id)
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error
    if (error.code === 'insufficient_balance') error.context.available_minor?.toFixed()
    // @ts-expect-error -- the context of a refused capture has the status
    if (error.code === 'payment_not_capturable') error.context.available_minor?.toFixed()
  }
  for await (const event of sluice.events.list()) {
    if (event.type === 'refund.failed') event.data.amount_minor.toFixed()
    // @ts-expect-error -- a customer has no amount
    if (event.type === 'customer.created') event.data.amount_minor.toFixed()
    if (event.type === 'payout.paid') event.subject_type satisfies 'payout'
    // @ts-expect-error -- a refund is another resource
    if (event.type === 'refund.failed') event.subject_type satisfies 'payment'
  }
  // @ts-expect-error -- there is no such status
  await sluice.payments.list({ status: 'paid' })
  return await sluice.payments.list()
}
`
