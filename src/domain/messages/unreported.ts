// SMS without a reported delivery or price: they are looked up at their provider, with increasing delays.
import type { Sql } from '#core/db.ts'
import { isOfMode } from '../modes.ts'
import type { Message, MessageStatus } from './message.ts'

/** The age at which lookups of an SMS end. */
const MAX_LOOKUP_AGE = '3 days'

export type UnreportedSms = {
  tenant_id: string
  id: string
  provider: string
  provider_reference: string
  status: MessageStatus
}

/**
 * Claims SMS that are due for a lookup, at most `limit`. The next lookup of an SMS follows at about twice its age.
 * SMS that are completely reported or too old get no further lookup, nor do those of tenants in test mode, whose
 * sandboxes report everything at once. `claimed`: the number of claimed SMS.
 */
export async function claimUnreportedSms(
  sql: Sql,
  limit: number,
): Promise<{ claimed: number; to_look_up: UnreportedSms[] }> {
  const rows = await sql<(UnreportedSms & { to_look_up: boolean })[]>`
    update messages m set lookup_at = case
        when due.to_look_up and m.sent_at > now() - ${MAX_LOOKUP_AGE}::interval
          then now() + greatest(interval '1 minute', now() - m.sent_at) end
    from (
      select tenant_id, id, provider_reference is not null and (status = 'sent' or price is null)
          and ${isOfMode(sql, sql`messages.tenant_id`, true)} as to_look_up
      from messages where lookup_at <= now() order by lookup_at limit ${limit} for update skip locked
    ) due
    where m.tenant_id = due.tenant_id and m.id = due.id
    returning m.tenant_id, m.id, m.provider, m.provider_reference, m.status, due.to_look_up`
  const to_look_up = rows.filter((row) => row.to_look_up).map(({ to_look_up: _to_look_up, ...sms }) => sms)
  return { claimed: rows.length, to_look_up }
}

/** Postpones the next lookup of SMS by `in_ms`, because their provider could not be queried. */
export async function postponeSmsLookups(
  sql: Sql,
  postponed: { sms: UnreportedSms }[],
  in_ms: number,
): Promise<void> {
  const ids = postponed.map(({ sms: { tenant_id, id } }) => ({ tenant_id, id }))
  await sql`
    update messages m set lookup_at = now() + ${in_ms} * interval '1 millisecond'
    from jsonb_to_recordset(${sql.json(ids)}) as u(tenant_id uuid, id uuid)
    where m.tenant_id = u.tenant_id and m.id = u.id and m.lookup_at is not null`
}

/** Stores the prices of SMS that have no price yet. */
export async function fillPrices(
  sql: Sql,
  prices: { tenant_id: string; id: string; price: NonNullable<Message['price']> }[],
): Promise<void> {
  await sql`
    update messages m set price = p.price, lookup_at = case when m.status = 'sent' then m.lookup_at end,
      updated_at = clock_timestamp()
    from jsonb_to_recordset(${sql.json(prices)}) as p(tenant_id uuid, id uuid, price jsonb)
    where m.tenant_id = p.tenant_id and m.id = p.id and m.price is null`
}
