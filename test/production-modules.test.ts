// What processes load in production: no emulator, no embedded server and no development dependency.
import { appendFile, cp, readFile, symlink } from 'node:fs/promises'
import { basename, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished } from 'vitest'
import { builtFile } from '#test/built.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { PARTS, type PartName } from '#test/parts.ts'
import { startProcess } from '#test/process.ts'
import { OPERATIONS_READY } from '#test/served-metrics.ts'
import { asUser } from '#test/users.ts'
import { testIn } from '#test/world.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const test = testIn({ parts: [], notifications: false })

/** The folders of node_modules that `npm ci --omit=dev` installs. */
async function productionPackages(): Promise<Set<string>> {
  const lock = JSON.parse(await readFile(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: boolean }>
  }
  return new Set(
    Object.keys(lock.packages).filter((path) => path !== '' && lock.packages[path]!.dev !== true),
  )
}

/** The sources in each built file. */
async function builtModules(): Promise<Record<string, string[]>> {
  return JSON.parse(await readFile(join(ROOT, 'dist/server/modules.json'), 'utf8')) as Record<
    string,
    string[]
  >
}

/** These files; instead of a built file, the files of which it was built. */
async function sourcesOf(files: string[]): Promise<string[]> {
  const built = await builtModules()
  return files.flatMap((file) => (file.startsWith('dist/server/') ? built[basename(file)]! : [file]))
}

test('built processes load the drivers of PostgreSQL from their own files, by which uncaught errors are recognized', async () => {
  expect(await sourcesOf([await builtFile('src/api/main.ts')])).toContain('src/api/main.ts')
  const modules = Object.values(await builtModules()).flat()
  expect(modules.filter((file) => /(?:^|\/)node_modules\/(?:pg|pg-[a-z-]+|postgres)\//.test(file))).toEqual(
    [],
  )
})

test.for(Object.keys(PARTS) as PartName[])(
  'in production %s loads only its own code and production dependencies',
  async (name, { world }) => {
    const folder = await createTemporaryFolder()
    onTestFinished(folder.remove)
    const LOADED_MODULES = join(folder.path, 'modules.json')
    const own = await startProcess(PARTS[name].file, {
      flags: ['--import', new URL('./support/loaded-modules.ts', import.meta.url).href],
      env: asUser(name, { ...world.env, LOG_LEVEL: 'info', NODE_ENV: 'production', LOADED_MODULES }),
      ready: OPERATIONS_READY,
    })
    onTestFinished(async () => void (await own.end()))
    await own.end('SIGINT')
    const urls = JSON.parse(await readFile(LOADED_MODULES, 'utf8')) as string[]
    const files = await sourcesOf(urls.map((url) => relative(ROOT, fileURLToPath(url))))
    expect(files).toContain(PARTS[name].file)
    const packages = await productionPackages()
    const astray = files.filter((file) => {
      const [, folder] = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(file) ?? []
      return folder === undefined
        ? !file.startsWith('src/') || /^src\/(?:emulators|start|commands)\//.test(file)
        : !packages.has(folder)
    })
    expect(astray).toEqual([])
    // Each of these takes several MB, and no process uses it: an HTTP framework without callers, and undici's fetch.
    const unused = /\/undici\/lib\/(?:web|mock|cache)\//
    expect(files.filter((file) => unused.test(file))).toEqual([])
    expect(files.some((file) => file.includes('/fastify/'))).toBe(name !== 'worker')
    // A worker loads the sandboxes when it first performs a job of a tenant in test mode.
    expect(files.filter((file) => /^src\/(?:providers|workers)\/sandbox\//.test(file))).toEqual([])
    // Without traces, nothing of OpenTelemetry, except its interface, which prom-client loads.
    expect(files.filter((file) => /@opentelemetry\/(?!api\/)/.test(file))).toEqual([])
  },
)

test('a process that was built before a migration was added does not start, and names the command that builds it', async ({
  world,
}) => {
  const { path, remove } = await createTemporaryFolder()
  onTestFinished(remove)
  const built = dirname(await builtFile(PARTS.api.file))
  for (const copied of [built, 'migrations', 'src/core/metrics', 'package.json'])
    await cp(join(ROOT, copied), join(path, copied), { recursive: true })
  await symlink(join(ROOT, 'node_modules'), join(path, 'node_modules'))
  await appendFile(join(path, 'migrations/SHA256SUMS'), 'another migration')
  const env = asUser('api', { ...world.env, LOG_LEVEL: 'info' })
  const started = startProcess(`${built}/api.js`, { root: path, env, ready: OPERATIONS_READY })
  await expect(started).rejects.toThrow('Run: npm run build')
})
