// The table of statuses in the pages: it has every status that routes answer, and none that nothing has.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { dashboardAnswers } from '#test/dashboard-routes.ts'
import { offlineDocuments } from '#test/offline-documents.ts'
import type { Schema } from '../sdk/generate/document.ts'
import { STATUS_TABLE } from '../src/dashboard/web/kit/statuses.ts'

const PAGES = join(import.meta.dirname, '../src/dashboard/web')

/** What the pages call that whose schema has another name. */
const RESOURCE_NAMES: Record<string, string> = {
  KycStatus: 'kyc',
  DriftState: 'drift',
  WebhookEndpointStatus: 'endpoint',
}
/** Answered, and told in words of its own. */
const IN_WORDS = ['RememberedStatus']
/** Statuses that no schema lists: outcomes in timelines, and what the pages say themselves. */
const UNLISTED = {
  jobs: ['ready', 'running', 'succeeded', 'failed', 'unknown', 'discarded'],
  attempts: ['done', 'declined', 'retry', 'ambiguous', 'returned', 'misconfigured', 'discarded', 'resolved'],
  calls: ['done', 'declined', 'rotated', 'discarded'],
  notifications: ['received', 'waiting', 'applied', 'parked', 'ignored'],
  // The last are of rows, keys, operators' acts, processes and providers.
  pages: ['parked', 'paused', 'retrying', 'lost', 'failing', 'none', 'done', 'refused'].concat([
    'archived',
    'deleted',
    'revoked',
    'expired',
    'active',
    'disabled',
    'up',
    'healthy',
  ]),
}

test('every status has a word, an icon and a tone, and no other word has', async () => {
  const { '/openapi.json': document } = await offlineDocuments(['/openapi.json'])
  const schemas = Object.entries(document.components.schemas as Record<string, Schema>)
  const listed = schemas.filter(([name]) => /(Status|State)$/.test(name) && !IN_WORDS.includes(name))
  expect(listed.length).toBeGreaterThan(10)
  const acts = (await dashboardAnswers()).properties['GET /ops/acts']!.items!.properties!['state']!
  const of = [...listed, ['Act', acts] as const].flatMap(([name, schema]) =>
    schema.enum!.map((status) => {
      const own = `${RESOURCE_NAMES[name]}.${String(status)}`
      return own in STATUS_TABLE ? own : String(status)
    }),
  )
  const used = new Set([...of, ...Object.values(UNLISTED).flat()])
  expect(Object.keys(STATUS_TABLE).toSorted()).toEqual([...used].toSorted())
})

test('a status is said to be of a noun only where that makes a difference', async () => {
  const named = new Set<string>()
  for (const name of await readdir(PAGES, { recursive: true }))
    if (name.endsWith('.tsx'))
      for (const [, resource] of (await readFile(join(PAGES, name), 'utf8')).matchAll(/ resource="(\w+)"/g))
        named.add(resource!)
  const known = new Set(
    Object.keys(STATUS_TABLE).flatMap((key) => (key.includes('.') ? key.split('.')[0]! : [])),
  )
  expect([...named].toSorted()).toEqual([...known].toSorted())
})
