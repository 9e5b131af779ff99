// The email to a tenant's contact about an automatically disabled endpoint.

export type DisabledEndpoint = {
  tenant_id: string
  /** The slug of the tenant. */
  slug: string
  id: string
  url: string
  description: string | null
  disabled_reason: 'gone' | 'failing'
  failing_since: string | null
}

/** The maximum length of a host name; a longer name would make the subject too long. */
const MAX_HOST_LENGTH = 253
const MAX_DESCRIPTION_LENGTH = 500
/**
 * The longest usual time between the creation of a delivery and its first failure: the recovery must begin this long
 * before the first failure.
 */
const LOOKBACK_MS = 3_600_000

/** The subject (one line) and the plain text. They contain only the host of the URL, because the path may be secret. */
export function disabledEmail(endpoint: DisabledEndpoint): { subject: string; text: string } {
  const { tenant_id, slug, id, disabled_reason } = endpoint
  const host = toSingleLine(URL.parse(endpoint.url)?.host ?? 'unknown').slice(0, MAX_HOST_LENGTH)
  const description = toSingleLine(endpoint.description ?? '').slice(0, MAX_DESCRIPTION_LENGTH)
  const since = endpoint.failing_since === null ? null : formatWithoutMs(Date.parse(endpoint.failing_since))
  const missing_since = since === null ? null : formatWithoutMs(Date.parse(since) - LOOKBACK_MS)
  const reason =
    disabled_reason === 'gone'
      ? 'It answered 410 Gone.'
      : `All its deliveries have failed${since === null ? ' for days' : ` since ${since}`}.`
  const lines = [
    `A webhook endpoint of the tenant ${slug} was disabled, and gets no more events.`,
    '',
    `Endpoint:    ${id}`,
    `Host:        ${host}`,
    ...(description === '' ? [] : [`Description: ${description}`]),
    `Tenant:      ${slug} (${tenant_id})`,
    `Why:         ${reason}`,
    '',
    'Its events are kept, and can be sent again. When the receiver works:',
    '',
    `1. Enable the endpoint: PATCH /v1/webhook_endpoints/${id}`,
    '   { "status": "enabled" }',
    '2. Request a recovery of the missed events, with the time from which events are missing:',
    `   POST /v1/webhook_endpoints/${id}/recover`,
    `   { "since": "${missing_since ?? '<time>'}" }`,
    '',
    'Enabling it alone sends only new events.',
    '',
  ]
  return { subject: `Webhook endpoint of ${slug} disabled: ${host}`, text: lines.join('\n') }
}

/** A text of the tenant on one line, without control characters and direction marks. */
function toSingleLine(text: string): string {
  return text.replaceAll(/[\p{C}\p{Z}]+/gu, ' ').trim()
}

function formatWithoutMs(at_ms: number): string {
  return `${new Date(at_ms).toISOString().slice(0, 19)}Z`
}
