// Requests to send messages. One statement counts them, checks suppressions, and inserts the message, the key and the
// job.
import type { Channel } from '#core/addresses.ts'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { enqueuing, requestJson } from '#jobs/job.ts'
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { insertingEvents, type EventType } from '../events.ts'
import { isKeyUsed, jobRequestColumns, storingKeys, type JobRequest } from '../idempotency.ts'
import { messageColumns } from './find.ts'
import { countingMessages, type MessageLimit, type MessageLimits } from './limits.ts'
import { CHANNEL_PROVIDERS, type MessageRow } from './message.ts'

/** The maximum number of days that a message may be scheduled ahead. */
export const MAX_DAYS_AHEAD = 30
const JOBS = { email: sendEmail, sms: sendSms }

export type MessageRequest = JobRequest & {
  message_id: string
  /** Sealed. */
  envelope: string
  content: string
  /** Each sealed; the plaintext is base64. */
  attachments: string[]
  /** The distinct hashes of the recipients, in the order of the envelope. */
  addresses: string[]
  /** The hash of an SMS sender. */
  sender: string | null
  terms: string[]
  tags: string[]
  segments: number | null
  encoding: string | null
  send_at: string | null
  /** Whether an attempt that certainly sent nothing is retried. */
  retries: boolean
  metadata: Json
}

export type MessageResult =
  | { result: 'key_used' | 'send_at' }
  /** `address`: the hash of the destination that exceeds its limit. */
  | { result: MessageLimit; address: string | null; retry_after_s: number }
  /** The accepted message, without the sealed columns. */
  | { result: 'accepted'; message: Omit<MessageRow, 'envelope' | 'content'> }

/**
 * Accepts messages of one channel and inserts their jobs. The job of a scheduled message is due at `send_at`; a
 * message with only suppressed recipients has no job. Returns the results in the order of `requests`: `key_used` when
 * the key was used before, `send_at` for an invalid time, or the exceeded limit. Throws a unique violation, and
 * writes nothing, when another request uses one of the keys at the same time.
 */
export async function requestMessages(
  sql: Sql | Tx,
  channel: Channel,
  limits: MessageLimits,
  requests: MessageRequest[],
): Promise<MessageResult[]> {
  const job = JOBS[channel]
  // Every statement inserts its keys in this order, so that statements with the same keys cannot deadlock.
  const keys = sql`
    select tenant_id, idempotency_key, route, fingerprint, message_id as resource_id,
      case when status = 'queued' then job_id end as job_id
    from accepted order by tenant_id, idempotency_key, route`
  const new_events = sql`
    select m.*, a.event_id, ${'message.created' satisfies EventType} as event
    from m join accepted a on a.message_id = m.id`
  const for_tenant = sql`
    select tenant_id, 'minute' as scope, nth, message_id, addresses from requests where result is null`
  const for_destinations = sql`
    select c.tenant_id, address as scope, c.nth, c.message_id
    from tenant_counted c cross join unnest(c.addresses) as address where c.within_limit`
  const rows = await sql<MessageResultRow[]>`
    with requests as (${readingRequests(sql, channel, requests)}),
    ${countingMessages(sql, 'tenant', limits.tenant, for_tenant)},
    ${countingMessages(sql, 'destination', limits.destination, for_destinations)},
    refused as (
      select nth, message_id, result, null as address, null::integer as retry_after_s
      from requests where result is not null
      union all
      select nth, message_id, 'tenant', null, retry_after_s from tenant_counted where not within_limit
      union all
      (select distinct on (nth) nth, message_id, 'destination', scope, retry_after_s
        from destination_counted where not within_limit)
    ), accepted as (${checkingRecipients(sql, channel)}), m as (
      insert into messages (tenant_id, id, idempotency_key, channel, status, envelope, content, sender, recipients,
        terms, tags, provider, segments, encoding, send_at, metadata)
      select tenant_id, message_id, idempotency_key, ${channel}, status, envelope, content, sender, recipients, terms,
        tags, ${CHANNEL_PROVIDERS[channel]}, segments, encoding, send_at, coalesce(metadata, 'null')
      from accepted order by tenant_id, idempotency_key
      returning *
    ), attachment as (
      insert into message_attachments (tenant_id, message_id, nth, content)
      select a.tenant_id, a.message_id, f.nth - 1, f.content
      from accepted a cross join jsonb_array_elements_text(a.attachments) with ordinality as f(content, nth)
      where a.status <> 'suppressed'
    ),
    stored_keys as (${storingKeys(sql, 'message', keys)}),
    event as (${insertingEvents(sql, 'message', new_events)}),
    job as (${enqueuing(sql, job, jobsToSend(sql, job), sql`coalesce(send_at, now())`)})
    select message_id, result, address, retry_after_s, ${messageColumns(sql, ['recipients'])}
    from (
      select m.*, id as message_id, 'accepted' as result, null as address, null::integer as retry_after_s from m
      union all
      select (null::messages).*, message_id, result, address, retry_after_s from refused
    ) results`
  const results = new Map(rows.map((row) => [row.message_id, toMessageResult(row)]))
  return requests.map(({ message_id }) => results.get(message_id)!)
}

type MessageResultRow = MessageRow & {
  message_id: string
  result: MessageResult['result']
  address: string | null
  retry_after_s: number
}

function toMessageResult({
  message_id: _id,
  result,
  address,
  retry_after_s,
  ...message
}: MessageResultRow): MessageResult {
  if (result === 'accepted') return { result, message }
  if (result === 'tenant' || result === 'destination') return { result, address, retry_after_s }
  return { result }
}

/** The requests. `result`: the reason for a refusal before any limit is checked, or null. */
function readingRequests(sql: Sql | Tx, channel: Channel, requests: MessageRequest[]): Fragment {
  const items = requests.map((request, nth) => ({ ...request, nth }))
  // `send_at` is a time of the tenant's clock.
  const real_send_at = sql`a.send_at - clock_offset(a.tenant_id)`
  return sql`
    select a.*, case
        when ${isKeyUsed(sql, 'message', sql`r.channel = ${channel}`)} then 'key_used'
        when a.send_at is not null and (${real_send_at} <= clock_timestamp()
          or ${real_send_at} > clock_timestamp() + ${MAX_DAYS_AHEAD} * interval '1 day') then 'send_at' end as result
    from jsonb_to_recordset(${sql.json(items)}) as a(
      ${jobRequestColumns(sql)}, nth integer, message_id uuid, envelope text, content text, attachments jsonb,
      addresses text[], sender text, terms text[], tags text[], segments integer, encoding text,
      send_at timestamptz, retries boolean, metadata jsonb)`
}

/** The accepted requests, each with its recipients and initial status. */
function checkingRecipients(sql: Sql | Tx, channel: Channel): Fragment {
  return sql`
    select g.*, t.recipients,
      case when t.suppressed then 'suppressed' when g.send_at is null then 'queued' else 'scheduled' end as status
    from requests g
    cross join lateral (
      select bool_and(r.suppressed) as suppressed, jsonb_agg(jsonb_build_object(
          'address', r.address, 'status', case when r.suppressed then 'suppressed' end,
          'code', null, 'message', null) order by r.ordinal) as recipients
      from (
        select r.*, exists (
          select from suppressions s
          where s.tenant_id = g.tenant_id and s.channel = ${channel} and s.address = r.address
            and s.deleted_at is null offset 0) as suppressed
        from unnest(g.addresses) with ordinality as r(address, ordinal) offset 0
      ) r
    ) t
    where not exists (select from refused r where r.nth = g.nth)`
}

/** The jobs of messages with at least one recipient that is not suppressed. */
function jobsToSend(sql: Sql | Tx, job: (typeof JOBS)[Channel]): Fragment {
  const has_files = sql`jsonb_array_length(attachments) > 0`
  return sql`
    select job_id, tenant_id, message_id as resource_id, jsonb_build_object('message_id', message_id) as payload,
      will_wake and send_at is null as will_wake, null::text as dedupe_key, request_id, send_at,
      ${requestJson(sql, job, { retries: sql`retries`, has_files })} as request
    from accepted where status <> 'suppressed'`
}
