// What the OpenAPI document says before its operations.
import { ERRORS } from '#core/errors.ts'
import type { ListedGuide } from '../guides/library.ts'
import { PROCESSOR_SENDER } from './stripe.ts'

/** The reference searches headings only: what people look for in these guides, beside their titles. */
const SOUGHT: Record<string, string> = {
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
  [PROCESSOR_SENDER.guide.name]: 'news and no news',
  dashboard: 'CSV export, keyboard shortcuts, forgotten password, team, SSO',
  operations: 'Docker, backup, retention, TTL, stuck jobs (retry, discard)',
}

/** The introduction, in Markdown. It ends with all guides, each under a heading of its own. */
export function introduction(guides: ListedGuide[]): string {
  const listed = guides.map(({ name, title, about }) => {
    const sought = SOUGHT[name]
    return `### ${title}${sought === undefined ? '' : `: ${sought}`}\n\n[${title}](/docs/guides/${name}): ${about}\n`
  })
  return `${BEGINNING}\n## Guides\n\n${listed.join('\n')}`
}

const BEGINNING = `
Customers, recipients, merchants, payments, captures, refunds, payouts, top-ups, verifications, messages and AI tasks over a thin
HTTP API; every piece of work becomes a durable job. Start with
the [quickstart](/docs/guides/quickstart); the [guides](/docs/guides) explain each part in full. For TypeScript and
JavaScript there is [an SDK](/docs/guides/sdk); for other languages generate one from this document.

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

Every create but those of templates and suppressions needs an \`idempotency_key\` in its body; the header \`Idempotency-Key\` may stand in for it. A
repetition with the same content is answered with what became of the first request, and \`Idempotent-Replayed: true\`;
with other content it is refused. A refusal decided before anything was written is not remembered; one of the processor
is: [idempotency](/docs/guides/idempotency).

## Waiting, timeout, retry

Payments (create, capture, cancel, refund), cancellations of payouts, verifications (create, link) and messages wait for the provider:
10 s, or as \`Prefer\` says. Creating a payout, top-up or AI task is answered 201 at once with what was accepted, and waits only if
\`Prefer\` asks to. What is waited for and not finished by then is answered 202 with the resource as it stands, and the work goes on:
[waiting and 202](/docs/guides/waiting).

## Errors

\`{ "error": { code, message, param?, details?, context?, request_id, doc_url } }\`. Each code has one status;
[what to do on each](/docs/guides/errors), to which \`doc_url\` leads.

${Object.entries(ERRORS)
  .map(([code, [status, message]]) => `- **${status}** \`${code}\`: ${message}`)
  .join('\n')}

## Events

What happens to customers, recipients, merchants, payments, refunds, payouts, top-ups, verifications, messages, their templates and
suppressions, AI tasks and webhook endpoints is told by events. \`GET /v1/events\` lists them in one order: [events](/docs/guides/events); they are also
sent to endpoints of yours: [receiving events](/docs/guides/receiving-events). Their types and data are listed under \`webhooks\`.

## Limits

\`RateLimit-Policy\` says how many requests a key may send, \`RateLimit\` what is left:
[rate limits](/docs/guides/rate-limits). A body may have 256 KiB, one with emails 15 MiB. Messages have
limits of their own, for each tenant and destination: \`rate_limited\` then says which in \`context.limit\`.
`
