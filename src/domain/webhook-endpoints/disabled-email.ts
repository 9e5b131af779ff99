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

/** The maximum length of a host name; a longer one would make the subject too long. */
const MAX_HOST_LENGTH = 253
const MAX_DESCRIPTION_LENGTH = 500
/** The first failed delivery was created at most this long before its failure, unless it waited for others. */
const LOOKBACK_MS = 3_600_000

/** The subject, one line, and the plain text. Of the URL only the host: the path may be secret as well. */
export function disabledEmail(endpoint: DisabledEndpoint): { subject: string; text: string } {
  const { tenant_id, slug, id, disabled_reason } = endpoint
  const host = oneLine(URL.parse(endpoint.url)?.host ?? 'unknown').slice(0, MAX_HOST_LENGTH)
  const description = oneLine(endpoint.description ?? '').slice(0, MAX_DESCRIPTION_LENGTH)
  const since = endpoint.failing_since === null ? null : toTheSecond(Date.parse(endpoint.failing_since))
  const missing_since = since === null ? null : toTheSecond(Date.parse(since) - LOOKBACK_MS)
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
    '2. Ask for what it missed, with the time from which events are missing:',
    `   POST /v1/webhook_endpoints/${id}/recover`,
    `   { "since": "${missing_since ?? '<time>'}" }`,
    '',
    'Enabling it alone sends only new events.',
    '',
  ]
  return { subject: `Webhook endpoint of ${slug} disabled: ${host}`, text: lines.join('\n') }
}

/** Text of the tenant: stays on one line, without direction marks. */
function oneLine(text: string): string {
  return text.replaceAll(/[\p{C}\p{Z}]+/gu, ' ').trim()
}

function toTheSecond(at_ms: number): string {
  return `${new Date(at_ms).toISOString().slice(0, 19)}Z`
}
