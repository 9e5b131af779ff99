// `npm run lint:openapi` lints the OpenAPI documents with Redocly's strictest ruleset and further rules. Needs no
// server.
import { createConfig, formatProblems, getTotals, lintFromString } from '@redocly/openapi-core'
import { offlineDocuments } from './offline-documents.ts'

const DOCUMENTS = ['/openapi.json', '/openapi-webhooks.json']

/** Rules that the strict ruleset does not contain. */
const ADDITIONAL_RULES = [
  'component-name-unique',
  'operation-description',
  'operation-singular-tag',
  'operation-tag-defined',
  'parameter-description',
  'scalar-property-missing-example',
]

const documents = await offlineDocuments(DOCUMENTS)
const rules = await createConfig({
  extends: ['recommended-strict'],
  rules: {
    ...Object.fromEntries(ADDITIONAL_RULES.map((rule) => [rule, 'error' as const])),
    // The paths `/v1/messages/{id}/cancel` and `/v1/messages/suppressions/{id}` are published. The paths do not
    // conflict, because `{id}` is a UUID.
    'no-ambiguous-paths': 'off',
  },
})

let found = 0
for (const url of DOCUMENTS) {
  const source = JSON.stringify(documents[url], null, 1)
  const problems = await lintFromString({ source, absoluteRef: url.slice(1), config: rules })
  const { errors, warnings } = getTotals(problems)
  formatProblems(problems, { totals: { errors, warnings, ignored: 0 }, version: '1', maxProblems: 1000 })
  process.stdout.write(`${url}: ${source.length} bytes, ${errors + warnings} problems\n`)
  found += errors + warnings
}
process.exit(found === 0 ? 0 : 1)
