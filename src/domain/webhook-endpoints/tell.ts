// Tells the contacts of tenants, by email, of endpoints that were disabled by themselves: once for each time.
import type { AddressHash } from '#core/addresses.ts'
import type { Sql, Tx } from '#core/db.ts'
import { newId, SYSTEM_TENANT_ID } from '#core/ids.ts'
import type { Vault } from '#core/secrets.ts'
import type { MessageLimits } from '../messages/limits.ts'
import { requestMessages, type MessageJudgement, type MessageRequest } from '../messages/request.ts'
import { sealTextEmail } from '../messages/text-email.ts'
import { disabledEmail, type DisabledEndpoint } from './disabled-email.ts'

/**
 * Of all tenants together as many as there are; to one contact so many in an hour, however often somebody enables what is
 * then disabled again.
 */
const LIMITS: MessageLimits = { tenant: 1_000_000, destination: 60 }

/** `reason`: why it was disabled. `how`: by email, or why nobody is told. */
export type ToldEndpoint = {
  tenant_id: string
  id: string
  reason: DisabledEndpoint['disabled_reason']
  how: 'email' | 'no_contact' | 'suppressed' | 'too_many'
}

type UntoldEndpoint = DisabledEndpoint & { contact_email: string | null; enabled_at: string }
type ContactedEndpoint = UntoldEndpoint & { contact_email: string }

/**
 * Writes the emails about up to `limit` endpoints, longest disabled first, as messages of the system's own tenant, and
 * marks the endpoints as told, also those of which nobody can be told; all of it or nothing. Leaves out what another
 * worker is telling of. Returns what became of each.
 */
export async function tellOfDisabled(
  sql: Sql,
  means: { vault: Vault; hashOf: AddressHash; from: string },
  limit: number,
): Promise<ToldEndpoint[]> {
  return await sql.begin(async (tx) => {
    const untold = await findUntold(tx, limit)
    if (untold.length === 0) return []
    const contacted = untold.filter(
      (endpoint): endpoint is ContactedEndpoint => endpoint.contact_email !== null,
    )
    const requests = contacted.map((endpoint) => requestOf(means, endpoint))
    const judged = requests.length === 0 ? [] : await requestMessages(tx, 'email', LIMITS, requests)
    const became = new Map(
      contacted.map(({ id }, nth): [string, ToldEndpoint['how']] => [id, howOf(judged[nth]!)]),
    )
    await tx`
      update webhook_endpoints p set told_at = clock_timestamp()
      from unnest(${untold.map(({ tenant_id }) => tenant_id)}::uuid[], ${untold.map(({ id }) => id)}::uuid[])
        as told(tenant_id, id)
      where p.tenant_id = told.tenant_id and p.id = told.id`
    return untold.map(({ tenant_id, id, disabled_reason: reason }) => {
      return { tenant_id, id, reason, how: became.get(id) ?? 'no_contact' }
    })
  })
}

async function findUntold(tx: Tx, limit: number): Promise<UntoldEndpoint[]> {
  return await tx<UntoldEndpoint[]>`
    select p.tenant_id, t.slug, t.contact_email, p.id, p.url, p.description, p.disabled_reason, p.failing_since,
      p.enabled_at
    from webhook_endpoints p join tenants t on t.id = p.tenant_id
    where p.disabled_reason in ('gone', 'failing') and p.told_at is null and p.deleted_at is null
    order by p.updated_at limit ${limit} for update of p skip locked`
}

function requestOf(
  means: { vault: Vault; hashOf: AddressHash; from: string },
  endpoint: ContactedEndpoint,
): MessageRequest {
  const ids = { tenant_id: SYSTEM_TENANT_ID, message_id: newId() }
  // Enabling it moves this time, so that its next end is told again.
  const idempotency_key = `webhook-endpoint-disabled ${endpoint.id} ${endpoint.enabled_at}`
  const email = { from: means.from, to: endpoint.contact_email, ...disabledEmail(endpoint) }
  return {
    ...ids,
    job_id: newId(),
    event_id: newId(),
    rung: false,
    idempotency_key,
    route: 'webhook-endpoint-disabled',
    fingerprint: '',
    request_id: null,
    ...sealTextEmail(means, ids, email),
    send_at: null,
    retries: true,
    metadata: { tenant_id: endpoint.tenant_id, webhook_endpoint_id: endpoint.id },
  }
}

function howOf(judged: MessageJudgement): ToldEndpoint['how'] {
  if (judged.became === 'known') return 'email'
  if (judged.became !== 'accepted') return 'too_many'
  return judged.message.status === 'suppressed' ? 'suppressed' : 'email'
}
