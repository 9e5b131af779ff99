// The introduction of the OpenAPI document.
import { ERRORS } from '#core/errors.ts'
import type { ListedGuide } from '../guides/library.ts'
import { PROCESSOR_WEBHOOK_DOC } from './stripe.ts'

/** Further search terms of guides: the reference searches headings only. */
const SEARCH_TERMS: Record<string, string> = {
  quickstart: 'reset',
  sdk: 'client library, TypeScript, npm',
  payments: 'capture, cancel (void), amounts with zero decimals (JPY)',
  'three-d-secure': '3DS, SCA',
  disputes: 'chargeback, inquiry',
  'recipients-and-merchants': 'archive, IBAN',
  kyc: 'KYC, identity, onboarding',
  messages: 'email, SMS, mail, text message, bounce, unsubscribe, DKIM',
  'ai-tasks': 'generate, classify, extract',
  'receiving-events': 'webhooks, signatures, replay, listen',
  [PROCESSOR_WEBHOOK_DOC.guide.name]: 'provider events',
  dashboard: 'CSV export, keyboard shortcuts, forgotten password, team, SSO',
  deploy: 'Docker, Compose, Kubernetes, systemd',
  operations: 'backup, retention, TTL, stuck jobs (retry, discard)',
}

/** The introduction, in Markdown. It ends with one heading per guide. */
export function introduction(guides: ListedGuide[]): string {
  const sections = guides.map(({ name, title, about }) => {
    const terms = SEARCH_TERMS[name]
    return `### ${title}${terms === undefined ? '' : `: ${terms}`}\n\n[${title}](/docs/guides/${name}): ${about}\n`
  })
  return `${OVERVIEW}\n## Guides\n\n${sections.join('\n')}`
}

const OVERVIEW = `
Customers, recipients, merchants, payments, captures, refunds, payouts, top-ups, verifications, messages and AI tasks over a thin
HTTP API. All work runs as durable jobs. Start with
the [quickstart](/docs/guides/quickstart); the [guides](/docs/guides) explain each topic in full. For TypeScript and
JavaScript there is [an SDK](/docs/guides/sdk); for other languages generate one from this document.

**Money** is an integer in the currency's smallest unit. **Timestamps** are ISO 8601 in UTC with microseconds. **Ids**
are UUIDs. Answers may get new fields, and enums new values, at any time. Nothing is removed without six
months' notice.

## Authentication, CORS

Send \`Authorization: Bearer sk_live_<tenant>_<random32>\`. The key selects the tenant, and its scopes say what it may
do: [keys and scopes](/docs/guides/keys). A key \`sk_test_...\` selects the tenant's twin in
[test mode](/docs/guides/test-mode); \`livemode\` in each record says the mode. There are no CORS headers: call the API from your server.

## Lists and pagination

Lists are bare arrays, newest first. The next page starts \`before\` the \`created_at\` of the last item, and a full page links
to it: [pagination](/docs/guides/pagination).

## Idempotency: retry without a double charge

Every create except those of templates and suppressions needs an \`idempotency_key\` in its body, or the header \`Idempotency-Key\` instead. A
repeated request with the same content gets the outcome of the first request, and \`Idempotent-Replayed: true\`;
with different content it is refused. A refusal before anything was written is not stored. A refusal by the processor
is stored, and a repeated request gets it again: [idempotency](/docs/guides/idempotency).

## Waiting, timeout, retry

Payments (create, capture, cancel, refund), cancellations of payouts, verifications (create, link) and messages wait for the provider:
10 s, or as long as \`Prefer\` says. Creating a payout, top-up or AI task is answered 201 at once with the accepted resource, and waits only if
\`Prefer\` asks for it. If the work is not finished by then, the answer is 202 with the resource as it is now, and the work continues:
[waiting and 202](/docs/guides/waiting).

## Errors

\`{ "error": { code, message, param?, details?, context?, request_id, doc_url } }\`. Each code has one status.
\`doc_url\` links to [what to do about it](/docs/guides/errors).

${Object.entries(ERRORS)
  .map(([code, [status, message]]) => `- **${status}** \`${code}\`: ${message}`)
  .join('\n')}

## Events

Changes of customers, recipients, merchants, payments, refunds, payouts, top-ups, verifications, messages, their templates and
suppressions, AI tasks and webhook endpoints produce events, and so do feed restarts and lost requests. \`GET /v1/events\` lists them in one order: [events](/docs/guides/events). They are also
sent to your endpoints: [receiving events](/docs/guides/receiving-events). Their types and data are listed under \`webhooks\`.

## Limits

\`RateLimit-Policy\` says how many requests a key and its tenant may send, and \`RateLimit\` how many are left:
[rate limits](/docs/guides/rate-limits). A body may have 256 KiB, or 15 MiB if it has emails. Messages have
separate limits for each tenant and destination: a \`rate_limited\` error names the limit in \`context.limit\`.
`
