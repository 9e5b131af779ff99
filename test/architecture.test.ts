// Holds the import table: which layer may know which.
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const SRC = fileURLToPath(new URL('../src/', import.meta.url))

/** Who may import whom; `*` marks what puts the whole together. One file of a layer is named `layer/file`. */
const MAY_IMPORT: Record<string, string[]> = {
  core: [],
  jobs: ['core'],
  queue: ['core', 'jobs'],
  providers: ['core'],
  domain: ['core', 'jobs'],
  workers: ['core', 'jobs', 'queue', 'domain', 'providers'],
  api: ['core', 'jobs', 'queue', 'domain'],
  webhooks: ['core', 'jobs', 'queue', 'domain', 'providers/signatures'],
  emulators: ['core'],
  commands: ['core', 'domain', 'queue'],
  start: ['*'],
}

/** Packages that one layer alone may know. */
const OWNERS: Record<string, string[]> = {
  bullmq: ['queue'],
  ioredis: ['queue'],
  stripe: ['providers'],
  undici: ['providers'],
  postgres: ['core', 'start'],
  pg: ['queue'],
  fastify: ['core', 'api', 'webhooks'],
}

type Import = { file: string; layer: string; target: string }

async function imports(): Promise<Import[]> {
  const files = (await readdir(SRC, { recursive: true, withFileTypes: true })).filter(
    (entry) => entry.isFile() && entry.name.endsWith('.ts'),
  )
  const found: Import[] = []
  for (const entry of files) {
    const path = join(entry.parentPath, entry.name)
    const file = relative(SRC, path)
    const text = await readFile(path, 'utf8')
    for (const [, target] of text.matchAll(/(?:\bfrom|\bimport|\bimport\()\s*['"]([^'"]+)['"]/g)) {
      found.push({ file, layer: file.split('/')[0]!, target: target! })
    }
  }
  return found
}

function allowed({ layer, target }: Import): boolean {
  const may = MAY_IMPORT[layer]
  if (may === undefined) return false
  if (target.startsWith('#')) {
    const name = target.slice(1).replace(/\.ts$/, '')
    const [other] = name.split('/')
    return other !== layer && (may.includes('*') || may.includes(other!) || may.includes(name))
  }
  const owners = OWNERS[target.split('/')[0]!]
  return owners === undefined || owners.includes(layer)
}

function staysInside({ file, layer, target }: Import): boolean {
  if (!target.startsWith('.')) return true
  return relative(SRC, join(SRC, file, '..', target)).split('/')[0] === layer && target.endsWith('.ts')
}

test('each layer imports only what the table allows', async () => {
  const all = await imports()
  expect(all.length).toBeGreaterThan(150)
  expect(all.filter((one) => !allowed(one)).map(({ file, target }) => `${file} imports ${target}`)).toEqual(
    [],
  )
})

test('relative imports stay within their layer and name the file', async () => {
  const astray = (await imports()).filter((one) => !staysInside(one))
  expect(astray.map(({ file, target }) => `${file} imports ${target}`)).toEqual([])
})

test('every layer has a row in the table', async () => {
  const layers = (await readdir(SRC, { withFileTypes: true }))
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
  expect(layers.filter((layer) => !(layer in MAY_IMPORT))).toEqual([])
})

test('the table would notice: a call to a provider inside the domain is a violation', () => {
  expect(allowed({ file: 'domain/x.ts', layer: 'domain', target: '#providers/payments.ts' })).toBe(false)
  expect(allowed({ file: 'api/x.ts', layer: 'api', target: 'bullmq' })).toBe(false)
  expect(allowed({ file: 'webhooks/x.ts', layer: 'webhooks', target: '#providers/payments.ts' })).toBe(false)
  expect(allowed({ file: 'webhooks/x.ts', layer: 'webhooks', target: '#providers/signatures.ts' })).toBe(true)
})
