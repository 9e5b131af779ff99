// The OpenAPI document of the API.
import { ERRORS, type ErrorCode } from '#core/errors.ts'
import { AREAS, AREA_NAMES } from '#domain/areas.ts'
import { byComponentName, HEADERS, PARAMETERS, SECURITY_SCHEMES } from './components.ts'
import { codesOf, operationOf, type DocumentedRoute } from './operation.ts'
import { errorExamples } from './error.ts'
import { eventsOf } from './events.ts'
import { createSchemas, type JsonSchema } from './schemas.ts'
import { SENDER } from './stripe.ts'

const INTRODUCTION = `
Customers, recipients, merchants, payments, captures, refunds, payouts, top-ups, verifications and AI tasks over a thin HTTP API;
every piece of work becomes a durable job. Start with
the [quickstart](/docs/guides/quickstart); the [guides](/docs/guides) explain each part in full.

**Money** is an integer in the currency's smallest unit. **Timestamps** are ISO 8601 in UTC with microseconds. **Ids**
are UUIDs. Answers may get new fields and enums new values at any time. From version 1.0 on nothing that is there goes
away without six months' notice; until then the changelog names what changes.

## Authentication, CORS

\`Authorization: Bearer sk_live_<tenant>_<random32>\`. The key says whose the records are, and its scopes what it may
do: [keys and scopes](/docs/guides/keys). There are no CORS headers: call from your server.

## Lists and pagination

Bare arrays, newest first. The next page starts \`before\` the \`created_at\` of the last item, and a full page links
to it: [pagination](/docs/guides/pagination).

## Idempotency: retry without a double charge

Every create needs an \`idempotency_key\` in its body; the header \`Idempotency-Key\` may stand in for it. A
repetition with the same content is answered with what became of the first request, and \`Idempotent-Replayed: true\`;
with other content it is refused. A refusal decided before anything was written is not remembered; one of the processor
is: [idempotency](/docs/guides/idempotency).

## Waiting, timeout, retry

Routes that move money wait for the processor: 10 s, or as \`Prefer\` says; AI tasks wait only if it asks to. What is not finished by then is answered 202
with the resource as it stands, and the work goes on: [waiting and 202](/docs/guides/waiting).

## Errors

\`{ "error": { code, message, param?, details?, context?, request_id, doc_url } }\`. Each code has one status;
[what to do on each](/docs/guides/errors), to which \`doc_url\` leads.

${Object.entries(ERRORS)
  .map(([code, [status, message]]) => `- **${status}** \`${code}\`: ${message}`)
  .join('\n')}

## Events

What happens to customers, recipients, merchants, payments, refunds, payouts, top-ups, verifications and AI tasks is kept as
events. Their types and data are listed under \`webhooks\`. Sending them is the area \`events\`, which this version does not have yet.

## Limits

\`RateLimit-Policy\` says how many requests a key may send, \`RateLimit\` what is left:
[rate limits](/docs/guides/rate-limits). A body may have 256 KiB.

## Guides

### Quickstart, reset, SDK

From an empty folder to a captured payment, and how to begin again: [quickstart](/docs/guides/quickstart). There is no
SDK of ours: generate one from this document.

### The life of a payment: capture, cancel (void)

Its states, and what moves it: [the life of a payment](/docs/guides/payments).

### Amounts: two, three and zero decimals (JPY)

\`1000\` is ten dollars, and a thousand yen: [amounts](/docs/guides/payments#amounts-and-zero-decimal-currencies).

### 3-D Secure (3DS, SCA)

From \`client_secret\` to the end: [3-D Secure](/docs/guides/three-d-secure).

### Partial capture and deadlines

Take less than was held, and take it in time: [partial capture](/docs/guides/captures).

### Refunds

Give money back, and notice when it did not arrive: [refunds](/docs/guides/refunds).

### Disputes, chargeback, inquiry

A buyer's bank asks the money back: [disputes](/docs/guides/disputes).

### Recipients and merchants, archive, IBAN

Whom payouts go to, and on whose behalf payments are taken: [recipients and merchants](/docs/guides/recipients-and-merchants).

### Verifications: KYC, identity, onboarding

Whether somebody is who they say they are: [verifications](/docs/guides/kyc).

### Test methods

A card for each outcome: [test methods](/docs/guides/test-methods).

### AI tasks: generate, classify, extract

Let a language model work for you, and read what it made: [AI tasks](/docs/guides/ai-tasks).

### Faults in the emulator

Let the processor fail when you want it to: [faults](/docs/guides/emulator-faults).

### ${SENDER.title}: news and no news

Set up the endpoint and its secrets: ${SENDER.guide}.

### Operations: Docker, backup, retention, TTL, stuck jobs (retry, discard)

Readiness, migrations, areas, alerts, logs, proxies, retention, sizing: [operations](/docs/guides/operations).
`

const TAGS = [
  ...AREA_NAMES.flatMap((area) => Object.entries(AREAS[area].tags ?? {})),
  ['idempotency', 'What became of a request whose answer was lost.'],
].map(([name, description]) => ({ name, description }))

/** What all documents of ours say of themselves. */
export const INFO = {
  version: '0.1.0',
  license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
}

/**
 * The document of `/v1`. `server`: where requests are sent; `/` is wherever the document came from. `origin`: where its
 * links lead.
 */
export function apiDocument(
  routes: DocumentedRoute[],
  { server, origin }: { server: string; origin: string },
): JsonSchema {
  const schemas = createSchemas()
  const paths: Record<string, JsonSchema> = {}
  const codes = new Set<ErrorCode>()
  for (const route of routes) {
    for (const code of codesOf(route.literal)) codes.add(code)
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, schemas) }
  }
  return {
    openapi: '3.1.1',
    info: {
      title: 'Sluice API',
      summary: 'Customers, payments, captures and refunds; no request lost and no money moved twice.',
      description: INTRODUCTION,
      ...INFO,
    },
    servers: [{ url: server, description: 'This installation.' }],
    externalDocs: { url: `${origin}/docs/guides`, description: 'Guides' },
    tags: TAGS,
    paths: sorted(paths),
    webhooks: eventsOf(schemas),
    components: {
      schemas: sorted(schemas.components),
      parameters: byComponentName(PARAMETERS),
      headers: byComponentName(HEADERS),
      examples: errorExamples([...codes], origin),
      securitySchemes: SECURITY_SCHEMES,
    },
  }
}

function sorted<T>(record: Record<string, T>): Record<string, T> {
  return Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
