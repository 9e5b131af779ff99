// Notifies the contacts of tenants by email about automatically disabled endpoints, once for each time that an
// endpoint is disabled.
import { databaseCode, isRowError, isUnavailable, type Sql, type Tx } from '#core/db.ts'
import { SealError } from '#core/secrets.ts'
import { countingMessages } from '../messages/limits.ts'
import { requestMessages, type MessageResult, type MessageRequest } from '../messages/request.ts'
import { NO_LIMITS, systemEmailRequest, type SystemEmailSettings } from '../messages/system-email.ts'
import { tenantNameColumn } from '../tenant-names.ts'
import { disabledEmail, type DisabledEndpoint } from './disabled-email.ts'

/**
 * The maximum number of emails to a tenant in an hour, however often its endpoints are enabled and disabled
 * again.
 */
const MAX_EMAILS_PER_HOUR = 60
/**
 * The `scope` of this limit in the table of counts. The limits on the tenant's own messages have the scope `minute` or
 * the hash of an address.
 */
const SCOPE = 'contact'

/**
 * `reason`: why the endpoint was disabled. `how`: the way in which the contact was notified, or the reason why no email
 * was sent. `put_off`: the email could not be written and is retried in the next run; `failed`: it could not be written
 * and is not retried; `error` is the cause of both.
 */
export type NotifiedEndpoint = {
  tenant_id: string
  id: string
  reason: DisabledEndpoint['disabled_reason']
  how: 'email' | 'no_contact' | 'suppressed' | 'too_many' | 'failed' | 'put_off'
  error?: unknown
}

type UnnotifiedEndpoint = DisabledEndpoint & { contact_email: string | null; enabled_at: string }
type ContactedEndpoint = UnnotifiedEndpoint & { contact_email: string }

/**
 * Writes the emails about up to `limit` endpoints, longest disabled first, as messages of the system tenant. Marks
 * these endpoints as notified, even if the tenant has no contact. Skips the ids in `put_off` and endpoints that another
 * worker has locked. Also skips tenants that have reached their hourly limit: their emails follow in the next hour. An
 * email that cannot be written does not block others. Returns the result for each endpoint.
 */
export async function notifyOfDisabled(
  sql: Sql,
  settings: SystemEmailSettings,
  limit: number,
  put_off: string[],
): Promise<NotifiedEndpoint[]> {
  try {
    return await sql.begin(
      async (tx) => await notifyContacts(tx, settings, await findUnnotified(tx, limit, put_off)),
    )
  } catch (error) {
    if (affectsAllEndpoints(error)) throw error
  }
  const notified: NotifiedEndpoint[] = []
  while (notified.length < limit) {
    const excluded = [...put_off, ...notified.filter(({ how }) => how === 'put_off').map(({ id }) => id)]
    const result = await sql.begin(async (tx) => await notifyFirst(tx, settings, excluded))
    if (result === undefined) break
    notified.push(result)
  }
  return notified
}

/** Handles the first endpoint separately. Undefined if there is none. */
async function notifyFirst(
  tx: Tx,
  settings: SystemEmailSettings,
  put_off: string[],
): Promise<NotifiedEndpoint | undefined> {
  const first = await findUnnotified(tx, 1, put_off)
  try {
    const [notified] = await tx.savepoint(async (part) => await notifyContacts(part, settings, first))
    return notified
  } catch (error) {
    const [endpoint] = first
    if (endpoint === undefined || affectsAllEndpoints(error)) throw error
    const how = isEndpointError(error) ? 'failed' : 'put_off'
    if (how === 'failed') await markNotified(tx, first)
    const { tenant_id, id, disabled_reason: reason } = endpoint
    return { tenant_id, id, reason, how, error }
  }
}

/** Whether the error affects all endpoints, so that the other endpoints need not be tried. */
function affectsAllEndpoints(error: unknown): boolean {
  return isUnavailable(error) || error instanceof SealError
}

/**
 * Whether the error would occur again with this endpoint, and not with others. A missing privilege is a mistake
 * in the set-up, and an exception of our own is a bug: both get fixed, and the email is retried.
 */
function isEndpointError(error: unknown): boolean {
  return isRowError(error) && databaseCode(error) !== '42501'
}

/**
 * Writes the emails about these endpoints and marks the endpoints as notified: all of them, or none if an error is
 * thrown.
 */
async function notifyContacts(
  tx: Tx,
  settings: SystemEmailSettings,
  unnotified: UnnotifiedEndpoint[],
): Promise<NotifiedEndpoint[]> {
  if (unnotified.length === 0) return []
  const contacted = unnotified.filter(
    (endpoint): endpoint is ContactedEndpoint => endpoint.contact_email !== null,
  )
  const too_many = await findBeyondLimit(tx, contacted)
  const to_email = contacted.filter((endpoint) => !too_many.has(endpoint))
  const requests = to_email.map((endpoint) => requestOf(settings, endpoint))
  const judged = requests.length === 0 ? [] : await requestMessages(tx, 'email', NO_LIMITS, requests)
  const result = new Map([
    ...to_email.map(({ id }, nth): [string, NotifiedEndpoint['how']] => [id, outcomeOf(judged[nth]!)]),
    ...[...too_many].map(({ id }): [string, NotifiedEndpoint['how']] => [id, 'too_many']),
  ])
  await markNotified(
    tx,
    unnotified.filter(({ id }) => result.get(id) !== 'too_many'),
  )
  return unnotified.map(({ tenant_id, id, disabled_reason: reason }) => {
    return { tenant_id, id, reason, how: result.get(id) ?? 'no_contact' }
  })
}

async function markNotified(tx: Tx, endpoints: UnnotifiedEndpoint[]): Promise<void> {
  await tx`
    update webhook_endpoints p set notified_at = clock_timestamp()
    from unnest(${endpoints.map(({ tenant_id }) => tenant_id)}::uuid[], ${endpoints.map(({ id }) => id)}::uuid[])
      as notified(tenant_id, id)
    where p.tenant_id = notified.tenant_id and p.id = notified.id`
}

async function findUnnotified(tx: Tx, limit: number, put_off: string[]): Promise<UnnotifiedEndpoint[]> {
  return await tx<UnnotifiedEndpoint[]>`
    select p.tenant_id, ${tenantNameColumn(tx)} as slug, t.contact_email, p.id, p.url, p.description,
      p.disabled_reason, p.failing_since, p.enabled_at
    from webhook_endpoints p join tenants t on t.id = p.tenant_id
    where p.disabled_reason in ('gone', 'failing') and p.notified_at is null and p.deleted_at is null
      and p.id <> all(${put_off}::uuid[])
      and not exists (
        select from message_limits m
        where m.tenant_id = p.tenant_id and m.scope = ${SCOPE} and m.window_start >= date_trunc('hour', now())
          and m.used >= ${MAX_EMAILS_PER_HOUR})
    order by p.updated_at limit ${limit} for update of p skip locked`
}

/** Counts these emails and returns the endpoints beyond the limit. */
async function findBeyondLimit(tx: Tx, contacted: ContactedEndpoint[]): Promise<Set<ContactedEndpoint>> {
  if (contacted.length === 0) return new Set()
  const emails = tx`
    select tenant_id, ${SCOPE} as scope, nth::integer
    from unnest(${contacted.map(({ tenant_id }) => tenant_id)}::uuid[]) with ordinality as w(tenant_id, nth)`
  const rows = await tx<{ nth: number }[]>`
    with ${countingMessages(tx, 'destination', MAX_EMAILS_PER_HOUR, emails)}
    select nth from destination_counted where not within_limit`
  return new Set(rows.map(({ nth }) => contacted[nth - 1]!))
}

function requestOf(settings: SystemEmailSettings, endpoint: ContactedEndpoint): MessageRequest {
  return systemEmailRequest(settings, {
    purpose: 'webhook-endpoint-disabled',
    // Enabling the endpoint changes `enabled_at` and so the key: the next disabling sends another email.
    idempotency_key: `webhook-endpoint-disabled ${endpoint.id} ${endpoint.enabled_at}`,
    email: { to: endpoint.contact_email, ...disabledEmail(endpoint) },
    metadata: { tenant_id: endpoint.tenant_id, webhook_endpoint_id: endpoint.id },
  })
}

function outcomeOf(judged: MessageResult): NotifiedEndpoint['how'] {
  if (judged.result === 'key_used') return 'email'
  if (judged.result !== 'accepted') return 'too_many'
  return judged.message.status === 'suppressed' ? 'suppressed' : 'email'
}
