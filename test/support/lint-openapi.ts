// `npm run lint:openapi`: the OpenAPI documents against the strictest public ruleset and more. Needs no server: nothing is asked.
import { randomBytes } from 'node:crypto'
import { createConfig, formatProblems, getTotals, lintFromString } from '@redocly/openapi-core'
import { buildApi } from '#api/app.ts'
import { createRecent } from '#api/recent.ts'
import { createFeedWaiters, createJobWaiters } from '#api/wait.ts'
import { loadConfig } from '#core/config.ts'
import { connectDatabase } from '#core/pool.ts'
import { AppError } from '#core/errors.ts'
import { createLog } from '#core/log.ts'
import { createVault } from '#core/secrets.ts'
import { openConfiguredQueue } from '#queue/configured.ts'
import { areasOf } from '#domain/areas.ts'
import { createDoorbell } from '#queue/doorbell.ts'

const DOCUMENTS = ['/openapi.json', '/openapi-webhooks.json']

/** What the strict ruleset leaves out. */
const MORE = [
  'component-name-unique',
  'operation-description',
  'operation-singular-tag',
  'operation-tag-defined',
  'parameter-description',
  'scalar-property-missing-example',
]

const config = loadConfig({
  NODE_ENV: 'test',
  // Nothing listens there, and nothing needs to.
  DATABASE_URL: 'postgres://127.0.0.1:1/none',
  REDIS_URL: 'redis://127.0.0.1:1',
  API_URL: 'https://api.sluice.test',
  WEBHOOKS_URL: 'https://hooks.sluice.test',
})
const log = createLog('silent', 'lint')
const sql = connectDatabase(config.DATABASE_URL!, { max: 1, application_name: 'lint' })
const queue = openConfiguredQueue(config, log)
const context = {
  config,
  areas: areasOf(config),
  sql,
  remembered: async () => undefined,
  recent_keys: createRecent(1),
  lanes: { quick: sql, long: sql },
  log,
  queue,
  vault: createVault(randomBytes(32).toString('base64')),
  hashOf: () => '',
  doorbell: createDoorbell(queue, 1),
  waiters: createJobWaiters(sql, queue, log),
  feed_waiters: createFeedWaiters(sql, queue, log),
}
const api = await buildApi(context, {
  authenticate: () => {
    throw new AppError('unauthorized')
  },
})
const rules = await createConfig({
  extends: ['recommended-strict'],
  rules: {
    ...Object.fromEntries(MORE.map((rule) => [rule, 'error' as const])),
    // `/v1/messages/{id}/cancel` and `/v1/messages/suppressions/{id}` are published: what stands for `{id}` is a UUID.
    'no-ambiguous-paths': 'off',
  },
})

let found = 0
for (const url of DOCUMENTS) {
  const source = JSON.stringify((await api.inject(url)).json(), null, 1)
  const problems = await lintFromString({ source, absoluteRef: url.slice(1), config: rules })
  const { errors, warnings } = getTotals(problems)
  formatProblems(problems, { totals: { errors, warnings, ignored: 0 }, version: '1', maxProblems: 1000 })
  process.stdout.write(`${url}: ${source.length} bytes, ${errors + warnings} problems\n`)
  found += errors + warnings
}
process.exit(found === 0 ? 0 : 1)
