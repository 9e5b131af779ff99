// The table of statuses in the pages has exactly the statuses of the API's responses.
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { dashboardAnswers } from '#test/dashboard-routes.ts'
import { offlineDocuments } from '#test/offline-documents.ts'
import type { Schema } from '../sdk/generate/document.ts'
import { STATUS_TABLE } from '../src/dashboard/web/kit/statuses.ts'

const PAGES = join(import.meta.dirname, '../src/dashboard/web')

/** The pages' names of resources whose schemas have other names. */
const RESOURCE_NAMES: Record<string, string> = {
  KycStatus: 'kyc',
  DriftState: 'drift',
  WebhookEndpointStatus: 'endpoint',
}
/** Schemas whose texts are not in the table. */
const WITH_OWN_TEXTS = ['AcceptedRequestStatus', 'TestClockStatus']
/** Statuses that no schema lists: outcomes in timelines, and texts of the pages. */
const UNLISTED = {
  jobs: ['ready', 'running', 'succeeded', 'failed', 'unknown', 'discarded'],
  attempts: ['done', 'declined', 'retry', 'ambiguous', 'returned', 'misconfigured', 'discarded', 'resolved'],
  calls: ['done', 'declined', 'rotated', 'discarded'],
  notifications: ['received', 'waiting', 'applied', 'parked', 'ignored'],
  // The array in `concat` has the statuses of rows, keys, operators' acts, processes and providers.
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

test('the table of statuses has a label, an icon and a tone for exactly the statuses of the API', async () => {
  const { '/openapi.json': document } = await offlineDocuments(['/openapi.json'])
  const schemas = Object.entries(document.components.schemas as Record<string, Schema>)
  const listed = schemas.filter(([name]) => /(Status|State)$/.test(name) && !WITH_OWN_TEXTS.includes(name))
  expect(listed.length).toBeGreaterThan(10)
  const acts = (await dashboardAnswers()).properties['GET /ops/acts']!.items!.properties!['state']!
  const answered = [...listed, ['Act', acts] as const].flatMap(([name, schema]) =>
    schema.enum!.map((status) => {
      const own = `${RESOURCE_NAMES[name]}.${String(status)}`
      return own in STATUS_TABLE ? own : String(status)
    }),
  )
  const used = new Set([...answered, ...Object.values(UNLISTED).flat()])
  expect(Object.keys(STATUS_TABLE).toSorted()).toEqual([...used].toSorted())
})

test('a page names the resource of a status only if the meaning of the status depends on the resource', async () => {
  const named = new Set<string>()
  for (const name of await readdir(PAGES, { recursive: true }))
    if (name.endsWith('.tsx'))
      for (const [, resource] of (await readFile(join(PAGES, name), 'utf8')).matchAll(/ resource="(\w+)"/g))
        named.add(resource!)
  const distinguished = new Set(
    Object.keys(STATUS_TABLE).flatMap((key) => (key.includes('.') ? key.split('.')[0]! : [])),
  )
  expect([...named].toSorted()).toEqual([...distinguished].toSorted())
})
