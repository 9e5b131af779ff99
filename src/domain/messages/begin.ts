// The last look before a message leaves: one that was canceled is not sent, nor to whom it was suppressed meanwhile.
import type { Channel } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import type { Fragment, Sql } from '#core/db.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { announce } from '../events.ts'
import { messageColumns } from './find.ts'
import type { MessageStatus, StoredRecipient } from './message.ts'
import { awaitsAnother } from './subject.ts'

export type MessageToBegin = { job_id: string; lease_token: string; tenant_id: string; message_id: string }

/** What a message says by itself of how it stands. */
export type StandingMessage = {
  status: MessageStatus
  provider_reference: string | null
  failure: MessageFailure | null
  recipients: StoredRecipient[]
}

/** A message as its job finds it, with all that is needed to send it or to look for it. */
export type BegunMessage = StandingMessage & {
  /** It may be sent now, once; else its status says why not. */
  begun: boolean
  /** Sealed. */
  envelope: string
  /** Sealed; null once it is erased. */
  content: string | null
  /** When it was to go, in Unix time. */
  wanted_s: number
  /** The domains that its tenant may write email from; null: those of the installation. */
  email_domains: string[] | null
}

/**
 * Marks messages whose provider will be asked to send them now, and the recipients that are suppressed by now; a
 * message of which none is left is `suppressed`. From then on it is never sent again unless it is settled as not sent.
 * One that has left is sent once more to the recipients that the server has deferred, which are marked too; that some
 * of these are suppressed by now is announced. Returns the messages of the jobs whose lease is still ours, by the ids
 * of the jobs.
 */
export async function beginMessages(
  sql: Sql,
  messages: MessageToBegin[],
): Promise<Map<string, BegunMessage>> {
  const items = messages.map((message) => ({ ...message, event_id: newId() }))
  const rows = await sql<(BegunMessage & { job_id: string })[]>`
    with held as (
      select l.* from (
        select * from jsonb_to_recordset(${sql.json(items)}) as l(
          job_id uuid, lease_token uuid, tenant_id uuid, message_id uuid, event_id uuid)
        order by job_id
      ) l
      cross join lateral (
        select from jobs j where j.id = l.job_id and j.lease_token = l.lease_token and j.lease_until > now() for update
      ) j
    ), locked as (
      select h.job_id, h.event_id, m.*, m.status in ('scheduled', 'queued') as is_first,
        m.status in ('scheduled', 'queued') or (m.status in ('sent', 'delivered', 'undelivered')
          and ${awaitsAnother(sql, 'm')}) as begun
      from (select * from held order by tenant_id, message_id) h
      cross join lateral (
        select * from messages m where m.tenant_id = h.tenant_id and m.id = h.message_id for update
      ) m
    ), looked as (${checkingSuppressions(sql)}), m as (
      update messages m set recipients = looked.recipients,
        status = case when not looked.is_first then m.status when looked.open > 0 then 'sending'
          when looked.refused is null then 'suppressed' else 'failed' end,
        -- Of those whom it did not reach before, the others are suppressed by now.
        failure = case when looked.is_first and looked.open = 0 and looked.refused is not null
          then jsonb_build_object('code', 'recipient_refused', 'message', coalesce(looked.refused ->> 'message', ''),
            'provider_code', looked.refused -> 'code') else m.failure end,
        begun_at = clock_timestamp(), updated_at = clock_timestamp()
      from looked where m.tenant_id = looked.tenant_id and m.id = looked.id
      returning m.*, looked.event_id, looked.is_first, looked.settled, looked.open as left_to_send
    ), event as (${announce(
      sql,
      'message',
      sql`
      select ${messageColumns(sql, [])}, event_id,
        case when is_first then 'message.' || status else 'message.recipients_settled' end as event,
        case when is_first then recipients else settled end as recipients
      from m where case when is_first then status in ('suppressed', 'failed') else settled is not null end`,
    )})
    select l.job_id, l.begun and m.left_to_send > 0 as begun, coalesce(m.status, l.status) as status, l.envelope,
      l.content, coalesce(m.recipients, l.recipients) as recipients, l.provider_reference,
      coalesce(m.failure, l.failure) as failure,
      extract(epoch from coalesce(l.send_at, l.created_at))::float8 as wanted_s,
      (select t.email_domains from tenants t where t.id = l.tenant_id and l.channel = 'email') as email_domains
    from locked l left join m on m.tenant_id = l.tenant_id and m.id = l.id`
  return new Map(rows.map(({ job_id, ...message }) => [job_id, message]))
}

/**
 * Marks the recipients of each begun message that are suppressed by now. `settled`: the suppressed recipients that were
 * deferred; `open`: the number of recipients that still get the message; `refused`: the first refused recipient.
 */
function checkingSuppressions(sql: Sql): Fragment {
  return sql`
    select l.tenant_id, l.id, l.event_id, l.is_first, r.*
    from locked l
    cross join lateral (
      select jsonb_agg(
          case
            when s.found then (e.recipient - 'deferred') || '{"status": "suppressed", "code": null, "message": null}'
            when e.recipient ->> 'deferred' = 'waiting' then e.recipient || '{"deferred": "trying"}'
            else e.recipient end order by e.nth
        ) as recipients,
        jsonb_agg(
          (e.recipient - 'deferred') || '{"status": "suppressed", "code": null, "message": null}' order by e.nth
        ) filter (where s.found and e.recipient ->> 'deferred' = 'waiting') as settled,
        count(*) filter (where s.found is null and e.recipient ->> 'status' is null
          and e.recipient ->> 'deferred' is distinct from 'unknown') as open,
        jsonb_path_query_first(jsonb_agg(e.recipient), '$[*] ? (@.status == "refused")') as refused
      from jsonb_array_elements(l.recipients) with ordinality as e(recipient, nth)
      left join lateral (
        select true as found from suppressions s
        where s.tenant_id = l.tenant_id and s.channel = l.channel and s.address = e.recipient ->> 'address'
          and s.deleted_at is null and e.recipient ->> 'status' is null limit 1
      ) s on true
    ) r
    where l.begun`
}

/** A message as it stands now; undefined when there is none. */
export async function findStandingMessage(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<(StandingMessage & { channel: Channel }) | undefined> {
  const [row] = await sql<(StandingMessage & { channel: Channel })[]>`
    select channel, status, provider_reference, failure, recipients from messages
    where tenant_id = ${tenant_id} and id = ${message_id}`
  return row
}

/** The attachments of a message, sealed, in their order. */
export async function findAttachments(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<string[]> {
  const rows = await sql<{ content: string }[]>`
    select content from message_attachments where tenant_id = ${tenant_id} and message_id = ${message_id} order by nth`
  return rows.map(({ content }) => content)
}
