// SMS of whose delivery or price nothing was heard: their provider is asked, ever more rarely.
import type { Sql } from '#core/db.ts'
import type { Message, MessageStatus } from './message.ts'

/** A provider that has said nothing more for so long is not asked again. */
const ASKED_FOR = '3 days'

export type UnheardSms = {
  tenant_id: string
  id: string
  provider: string
  provider_reference: string
  status: MessageStatus
}

/**
 * Takes SMS of which the provider is to be asked now, at most `limit`. Each is asked of again when it is about twice as
 * old; one of which all is known, or that is too old, not any more.
 */
export async function takeUnheard(sql: Sql, limit: number): Promise<{ taken: number; wanted: UnheardSms[] }> {
  const rows = await sql<(UnheardSms & { wanted: boolean })[]>`
    update messages m set ask_at = case
        when due.wanted and m.sent_at > now() - ${ASKED_FOR}::interval
          then now() + greatest(interval '1 minute', now() - m.sent_at) end
    from (
      select tenant_id, id, provider_reference is not null and (status = 'sent' or price is null) as wanted
      from messages where ask_at <= now() order by ask_at limit ${limit} for update skip locked
    ) due
    where m.tenant_id = due.tenant_id and m.id = due.id
    returning m.tenant_id, m.id, m.provider, m.provider_reference, m.status, due.wanted`
  const wanted = rows.filter((row) => row.wanted).map(({ wanted: _wanted, ...sms }) => sms)
  return { taken: rows.length, wanted }
}

/** Asks again in so long about SMS of which the provider could not be asked. */
export async function askLater(sql: Sql, unasked: { sms: UnheardSms }[], in_ms: number): Promise<void> {
  const ids = unasked.map(({ sms: { tenant_id, id } }) => ({ tenant_id, id }))
  await sql`
    update messages m set ask_at = now() + ${in_ms} * interval '1 millisecond'
    from jsonb_to_recordset(${sql.json(ids)}) as u(tenant_id uuid, id uuid)
    where m.tenant_id = u.tenant_id and m.id = u.id and m.ask_at is not null`
}

/** Writes what SMS have cost, once. */
export async function fillPrices(
  sql: Sql,
  prices: { tenant_id: string; id: string; price: NonNullable<Message['price']> }[],
): Promise<void> {
  await sql`
    update messages m set price = p.price, ask_at = case when m.status = 'sent' then m.ask_at end,
      updated_at = clock_timestamp()
    from jsonb_to_recordset(${sql.json(prices)}) as p(tenant_id uuid, id uuid, price jsonb)
    where m.tenant_id = p.tenant_id and m.id = p.id and m.price is null`
}
