// The built pages of the dashboard: the size of the first page and its content security policy.
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'vite'
import { expect, onTestFinished, test } from 'vitest'
import { SCOPES } from '#domain/areas.ts'
import { RESOURCE_NAMES } from '#domain/resources.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { RESOURCE_PAGES, pageOfResource } from '../src/dashboard/web/resources.ts'
import { SCOPE_DESCRIPTIONS } from '../src/dashboard/web/scopes.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
/** The gzipped scripts of the first page. */
const MAX_SCRIPT_BYTES = 250_000

test('the first page loads less than 250 kB of scripts and has no inline script or style', async () => {
  const folder = await createTemporaryFolder()
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
  expect(bytes).toBeLessThan(MAX_SCRIPT_BYTES)
})

test('the form of API keys offers exactly the scopes of the API', () => {
  expect(Object.keys(SCOPE_DESCRIPTIONS).toSorted()).toEqual([...SCOPES].toSorted())
})

test('the pages know all resources of the API, and each resource with a page has a route', async () => {
  const resources = Object.keys(RESOURCE_PAGES)
  expect(resources.toSorted()).toEqual(['event', ...RESOURCE_NAMES].toSorted())
  const router = await readFile(join(ROOT, 'src/dashboard/web/router.tsx'), 'utf8')
  const pages = Array.from(router.matchAll(/'(\/[a-z/-]+)\/\$id'/g), ([, page]) => page!)
  const linked = resources
    .map((resource) => String(pageOfResource(resource, 'ID')))
    .filter((page) => page.endsWith('/ID'))
  const routed = pages.filter((page) => !/^\/(?:ops|sandbox)\//.test(page)).map((page) => `${page}/ID`)
  expect(linked.toSorted()).toEqual(routed.toSorted())
})
