// Makes customers, merchants and recipients again of which only the id is known: rows of payments, payouts and
// verifications name them. A repeated creation fills them in.
import { DESTINATIONS } from '#core/config/providers.ts'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { placeholderKey } from '../provider-metadata.ts'
import type { VerificationSubjectType } from '../verifications/verification.ts'

/**
 * Inserts the party if it does not exist. `destination, currency`: what is known of a recipient from a payout; it also
 * completes a recipient that exists without.
 */
export async function recoverParty(
  tx: Tx,
  type: VerificationSubjectType,
  { tenant_id, id }: { tenant_id: string; id: string },
  { destination = null, currency = 'usd' }: { destination?: string | null; currency?: string } = {},
): Promise<void> {
  const key = placeholderKey(id)
  const [kind] = Object.entries(DESTINATIONS).find(([, prefix]) => destination?.startsWith(prefix)) ?? [
    'bank_account',
  ]
  const inserts: Record<VerificationSubjectType, () => Fragment> = {
    customer: () => tx`
      insert into customers (tenant_id, id, idempotency_key, recovered_at)
      values (${tenant_id}, ${id}, ${key}, clock_timestamp())`,
    merchant: () => tx`
      insert into merchants
        (tenant_id, id, idempotency_key, legal_name, display_name, country, support_email, recovered_at)
      values (${tenant_id}, ${id}, ${key}, unknown_text(), unknown_text(), unknown_country(), unknown_text(),
        clock_timestamp())`,
    recipient: () => tx`
      insert into recipients
        (tenant_id, id, idempotency_key, name, type, currency, country, destination, recovered_at)
      values (${tenant_id}, ${id}, ${key}, unknown_text(), ${kind}, ${currency}, unknown_country(),
        coalesce(${destination}, unknown_destination()), clock_timestamp())`,
  }
  await tx`${inserts[type]()} on conflict (tenant_id, id) do nothing`
  if (destination !== null)
    await tx`select complete_recipient(${tenant_id}, ${id}, ${kind}, ${currency}, ${destination})`
}

/** Whether nothing is known of the customer, merchant or recipient `r` but what names it at providers. */
export function isPlaceholder(sql: Sql | Tx): Fragment {
  return sql`(r.recovered_at is not null and r.idempotency_key = any(placeholder_keys(r.id)))`
}

/** Whether the destination of the recipient `r` is not known: nothing can be paid out to it. */
export function hasUnknownDestination(sql: Sql): Fragment {
  return sql`(r.destination = unknown_destination() and ${isPlaceholder(sql)})`
}
