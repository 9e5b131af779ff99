// What the email says to a tenant's contact about an endpoint that was disabled by itself.

export type DisabledEndpoint = {
  tenant_id: string
  /** The tenant's. */
  slug: string
  id: string
  url: string
  description: string | null
  disabled_reason: 'gone' | 'failing'
  failing_since: string | null
}

/** A host name has no more; a longer one would make the subject too long. */
const MAX_HOST_LENGTH = 253
const MAX_DESCRIPTION_LENGTH = 500
/** What failed first was made so long before, at most, unless it waited for others. */
const LOOKBACK_MS = 3_600_000

/** The subject, one line, and the text, plain. Of the URL only the host: the rest may be secret, the path too. */
export function disabledEmail(endpoint: DisabledEndpoint): { subject: string; text: string } {
  const { tenant_id, slug, id, disabled_reason } = endpoint
  const host = oneLine(URL.parse(endpoint.url)?.host ?? 'unknown').slice(0, MAX_HOST_LENGTH)
  const description = oneLine(endpoint.description ?? '').slice(0, MAX_DESCRIPTION_LENGTH)
  const since = endpoint.failing_since === null ? null : toTheSecond(Date.parse(endpoint.failing_since))
  const missing_since = since === null ? null : toTheSecond(Date.parse(since) - LOOKBACK_MS)
  const reason =
    disabled_reason === 'gone'
      ? 'It answered 410 Gone: it wants no more events.'
      : `Its deliveries have only failed${since === null ? ' for days' : ` since ${since}`}.`
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
    '2. Ask for what it missed, with the time from which events are missing:',
    `   POST /v1/webhook_endpoints/${id}/recover`,
    `   { "since": "${missing_since ?? '<time>'}" }`,
    '',
    'Enabling it alone sends only new events.',
    '',
  ]
  return { subject: `Webhook endpoint of ${slug} disabled: ${host}`, text: lines.join('\n') }
}

/** It comes from the tenant: it stays on its line, and turns no writing direction. */
function oneLine(text: string): string {
  return text.replaceAll(/[\p{C}\p{Z}]+/gu, ' ').trim()
}

function toTheSecond(at_ms: number): string {
  return `${new Date(at_ms).toISOString().slice(0, 19)}Z`
}
