// The last look before a message leaves: one that was canceled is not sent, nor to whom it was suppressed meanwhile.
import type { Channel } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import type { Sql } from '#core/db.ts'
import type { MessageFailure } from '#core/outcome.ts'
import { announce } from '../events.ts'
import type { MessageStatus, StoredRecipient } from './message.ts'

export type MessageToBegin = { job_id: string; lease_token: string; tenant_id: string; message_id: string }

/** What a message says by itself of how it stands. */
export type StandingMessage = {
  status: MessageStatus
  provider_reference: string | null
  failure: MessageFailure | null
}

/** A message as its job finds it, with all that is needed to send it or to look for it. */
export type BegunMessage = StandingMessage & {
  /** It may be sent now, once; else its status says why not. */
  begun: boolean
  /** Sealed. */
  envelope: string
  /** Sealed; null once it is erased. */
  content: string | null
  recipients: StoredRecipient[]
  /** When it was to go, in Unix time. */
  wanted_s: number
}

/**
 * Marks messages whose provider will be asked to send them now, and the recipients that are suppressed by now; a
 * message of which none is left is `suppressed`. From then on it is never sent again unless it is settled as not sent.
 * Returns the messages of the jobs whose lease is still ours, by the ids of the jobs.
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
      select h.job_id, h.event_id, m.*, m.status in ('scheduled', 'queued') as begun
      from (select * from held order by tenant_id, message_id) h
      cross join lateral (
        select * from messages m where m.tenant_id = h.tenant_id and m.id = h.message_id for update
      ) m
    ), looked as (
      select l.tenant_id, l.id, l.event_id, r.recipients, r.open
      from locked l
      cross join lateral (
        select jsonb_agg(
            case when s.found then e.recipient || '{"status": "suppressed"}' else e.recipient end order by e.nth
          ) as recipients,
          count(*) filter (where s.found is null and e.recipient ->> 'status' is distinct from 'suppressed') as open
        from jsonb_array_elements(l.recipients) with ordinality as e(recipient, nth)
        left join lateral (
          select true as found from suppressions s
          where s.tenant_id = l.tenant_id and s.channel = l.channel and s.address = e.recipient ->> 'address'
            and s.deleted_at is null limit 1
        ) s on true
      ) r
      where l.begun
    ), m as (
      update messages m set recipients = looked.recipients,
        status = case when looked.open = 0 then 'suppressed' else 'sending' end, updated_at = clock_timestamp()
      from looked where m.tenant_id = looked.tenant_id and m.id = looked.id
      returning m.*, looked.event_id
    ), event as (${announce(
      sql,
      'message',
      sql`
      select m.*, 'message.suppressed' as event from m where m.status = 'suppressed'`,
    )})
    select l.job_id, l.begun and m.status = 'sending' as begun, coalesce(m.status, l.status) as status, l.envelope,
      l.content, coalesce(m.recipients, l.recipients) as recipients, l.provider_reference, l.failure,
      extract(epoch from coalesce(l.send_at, l.created_at))::float8 as wanted_s
    from locked l left join m on m.tenant_id = l.tenant_id and m.id = l.id`
  return new Map(rows.map(({ job_id, ...message }) => [job_id, message]))
}

/** A message as it stands now; undefined when there is none. */
export async function findStandingMessage(
  sql: Sql,
  { tenant_id, message_id }: { tenant_id: string; message_id: string },
): Promise<(StandingMessage & { channel: Channel }) | undefined> {
  const [row] = await sql<(StandingMessage & { channel: Channel })[]>`
    select channel, status, provider_reference, failure from messages
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
