// The pages of the dashboard as they are built: how much comes first, and that nothing needs more than the policy gives.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { expect, onTestFinished, test } from 'vitest'
import { SCOPES } from '#domain/areas.ts'
import { RESOURCE_NAMES } from '#domain/resources.ts'
import { makeFolder } from '#test/folders.ts'
import { RESOURCE_PAGES, pageOfResource } from '../src/dashboard/web/resources.ts'
import { SCOPE_DESCRIPTIONS } from '../src/dashboard/web/scopes.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
/** Of script, gzipped, for the first page. */
const MOST_BYTES = 250_000

test('the first page needs less than 250 kB of script, and nothing that stands in the page itself', async () => {
  const folder = await makeFolder()
  onTestFinished(folder.remove)
  const out = join(folder.path, 'dashboard')
  await build({
    configFile: join(ROOT, 'vite.config.ts'),
    logLevel: 'error',
    build: { outDir: out, emptyOutDir: true },
  })
  const html = await readFile(join(out, 'index.html'), 'utf8')
  expect(html).toContain('<meta name="csp-nonce" content="__CSP_NONCE__" />')
  expect(html).not.toMatch(/<style|style=|<script(?![^>]*\bsrc=)|(?:src|href)="(?!\/)/)
  const files = Array.from(html.matchAll(/"(\/assets\/[^"]+\.js)"/g), ([, file]) => file!)
  const sizes = await Promise.all(files.map(async (file) => gzipSync(await readFile(join(out, file))).length))
  const bytes = sizes.reduce((sum, size) => sum + size, 0)
  expect(bytes).toBeGreaterThan(50_000)
  expect(bytes).toBeLessThan(MOST_BYTES)
})

test('the scopes that a key can be given are those of the API', () => {
  expect(Object.keys(SCOPE_DESCRIPTIONS).toSorted()).toEqual([...SCOPES].toSorted())
})

test('the nouns that the pages know are those of the API, and each that has a page is led to it', async () => {
  const known = Object.keys(RESOURCE_PAGES)
  expect(known.toSorted()).toEqual(['event', ...RESOURCE_NAMES].toSorted())
  const router = await readFile(join(ROOT, 'src/dashboard/web/router.tsx'), 'utf8')
  const pages = Array.from(router.matchAll(/'(\/[a-z/-]+)\/\$id'/g), ([, page]) => page!)
  const shown = known
    .map((resource) => String(pageOfResource(resource, 'ID')))
    .filter((page) => page.endsWith('/ID'))
  const routed = pages.filter((page) => !page.startsWith('/ops/')).map((page) => `${page}/ID`)
  expect(shown.toSorted()).toEqual(routed.toSorted())
})
