// What callers ask of messages: one statement counts them, looks who is suppressed, and writes the message, the key and
// the job.
import type { Channel } from '#core/addresses.ts'
import type { Json, Sql } from '#core/db.ts'
import { enqueue, requestJson } from '#jobs/job.ts'
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { announce, type EventType } from '../events.ts'
import { isKnown, remember, type JobRequest } from '../idempotency.ts'
import { messageColumns } from './find.ts'
import { counting, type MessageLimit, type MessageLimits } from './limits.ts'
import { PROVIDER_OF, type MessageRow } from './message.ts'

/** So many days ahead a message may be scheduled. */
export const MOST_DAYS_AHEAD = 30
const JOBS = { email: sendEmail, sms: sendSms }

export type MessageRequest = JobRequest & {
  message_id: string
  /** Sealed. */
  envelope: string
  content: string
  /** Each sealed, base64 within. */
  attachments: string[]
  /** The hashes of the recipients, each once, in the order of the envelope. */
  addresses: string[]
  /** The hash of what an SMS is from. */
  sender: string | null
  terms: string[]
  tags: string[]
  segments: number | null
  encoding: string | null
  send_at: string | null
  /** Whether it is tried again when it certainly was not sent. */
  retries: boolean
  metadata: Json
}

export type MessageJudgement =
  | { became: 'known' | 'send_at' }
  /** `address`: the hash of the destination that had too many. */
  | { became: MessageLimit; address: string | null; retry_after_s: number }
  /** As it was accepted, without the sealed parts. */
  | { became: 'accepted'; message: Omit<MessageRow, 'envelope' | 'content'> }

/**
 * Accepts messages of one channel and asks for their jobs; a scheduled one's is due at its time, and one whose
 * recipients are all suppressed gets none. Returns what became of each, in their order: `known` by its key, or refused
 * for its `send_at` or by a limit. Throws a unique violation when a key is used by another request at the same moment;
 * nothing was written then.
 */
export async function requestMessages(
  sql: Sql,
  channel: Channel,
  limits: MessageLimits,
  requests: MessageRequest[],
): Promise<MessageJudgement[]> {
  const job = JOBS[channel]
  const items = requests.map((request, nth) => ({ ...request, nth }))
  // In one order in every statement: two with the same keys cannot block each other.
  const keys = sql`
    select a.tenant_id, a.idempotency_key, a.route, a.fingerprint, a.message_id as resource_id,
      case when m.status = 'queued' then a.job_id end as job_id
    from asked a join m on m.tenant_id = a.tenant_id and m.id = a.message_id
    order by a.tenant_id, a.idempotency_key, a.route`
  const announced = sql`
    select m.*, a.event_id, ${'message.created' satisfies EventType} as event
    from m join asked a on a.tenant_id = m.tenant_id and a.message_id = m.id`
  const to_send = sql`
    select a.job_id, a.tenant_id, a.message_id as subject_id, jsonb_build_object('message_id', a.message_id) as payload,
      a.rung and a.send_at is null as rung, null::text as dedupe_key, a.request_id, a.send_at,
      ${requestJson(sql, job, { retries: sql`a.retries` })} as request
    from asked a join m on m.tenant_id = a.tenant_id and m.id = a.message_id
    where m.status <> 'suppressed'`
  const for_tenant = sql`select tenant_id, 'minute' as scope, nth from given where became is null`
  const for_destinations = sql`
    select g.tenant_id, address as scope, g.nth
    from given g join tenant_counted c on c.nth = g.nth and c.fits cross join unnest(g.addresses) as address`
  const rows = await sql<
    (MessageRow & { nth: number; became: MessageJudgement['became'] } & {
      address: string | null
      retry_after_s: number
    })[]
  >`
    with given as (
      select a.*, case
          when ${isKnown(sql, 'message', sql`r.channel = ${channel}`)} then 'known'
          when a.send_at <= clock_timestamp() or a.send_at > clock_timestamp() + ${MOST_DAYS_AHEAD} * interval '1 day'
            then 'send_at' end as became
      from jsonb_to_recordset(${sql.json(items)}) as a(
        nth integer, tenant_id uuid, message_id uuid, job_id uuid, event_id uuid, rung boolean, idempotency_key text,
        route text, fingerprint text, request_id text, envelope text, content text, attachments jsonb, addresses text[],
        sender text, terms text[], tags text[], segments integer, encoding text, send_at timestamptz, retries boolean,
        metadata jsonb)
    ), ${counting(sql, 'tenant', limits.tenant, for_tenant)},
    ${counting(sql, 'destination', limits.destination, for_destinations)},
    refused as (
      select nth, became, null as address, null as retry_after_s from given where became is not null
      union all
      select nth, 'tenant', null, retry_after_s from tenant_counted where not fits
      union all
      (select distinct on (nth) nth, 'destination', scope, retry_after_s from destination_counted where not fits)
    ), asked as (
      select g.* from given g where not exists (select from refused r where r.nth = g.nth)
    ), addressed as (
      select a.nth, bool_and(s.suppressed) as suppressed, jsonb_agg(jsonb_build_object(
        'address', r.address, 'status', case when s.suppressed then 'suppressed' end, 'code', null, 'message', null
        ) order by r.place) as recipients
      from asked a
      cross join unnest(a.addresses) with ordinality as r(address, place)
      cross join lateral (
        select exists (
          select from suppressions s
          where s.tenant_id = a.tenant_id and s.channel = ${channel} and s.address = r.address and s.deleted_at is null
          offset 0) as suppressed
      ) s
      group by a.nth
    ), m as (
      insert into messages (tenant_id, id, idempotency_key, channel, status, envelope, content, sender, recipients,
        terms, tags, provider, segments, encoding, send_at, metadata)
      select a.tenant_id, a.message_id, a.idempotency_key, ${channel},
        case when r.suppressed then 'suppressed' when a.send_at is null then 'queued' else 'scheduled' end,
        a.envelope, a.content, a.sender, r.recipients, a.terms, a.tags, ${PROVIDER_OF[channel]}, a.segments, a.encoding,
        a.send_at, coalesce(a.metadata, 'null')
      from asked a join addressed r on r.nth = a.nth order by a.tenant_id, a.idempotency_key
      returning *
    ), file as (
      insert into message_attachments (tenant_id, message_id, nth, content)
      select a.tenant_id, a.message_id, f.nth - 1, f.content
      from asked a join m on m.tenant_id = a.tenant_id and m.id = a.message_id
      cross join jsonb_array_elements_text(a.attachments) with ordinality as f(content, nth)
      where m.status <> 'suppressed'
    ),
    remembered as (${remember(sql, 'message', keys)}),
    event as (${announce(sql, 'message', announced)}),
    job as (${enqueue(sql, job, to_send, sql`coalesce(send_at, now())`)})
    select g.nth, coalesce(r.became, 'accepted') as became, r.address, r.retry_after_s, m.*
    from given g left join refused r on r.nth = g.nth
    left join (select ${messageColumns(sql, ['recipients'])} from m) m on m.id = g.message_id`
  const judged = new Map(
    rows.map(({ nth, became, address, retry_after_s, ...message }): [number, MessageJudgement] => {
      if (became === 'accepted') return [nth, { became, message }]
      if (became === 'tenant' || became === 'destination') return [nth, { became, address, retry_after_s }]
      return [nth, { became }]
    }),
  )
  return requests.map((_request, nth) => judged.get(nth)!)
}
