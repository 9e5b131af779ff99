// Messages as stories need them: accepted as the API accepts them, told of by signed notifications, and as they stand.
import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { bareAddress, createAddressHash, type AddressHash, type Channel } from '#core/addresses.ts'
import { newId } from '#core/ids.ts'
import { createVault } from '#core/secrets.ts'
import { announce } from '#domain/events.ts'
import type { MessageContent, MessageEnvelope } from '#domain/messages/message.ts'
import { PROVIDER_OF } from '#domain/messages/message.ts'
import { attachmentPlace, messagePlace } from '#domain/messages/sealed.ts'
import { enqueue, requestJson } from '#jobs/job.ts'
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { freshKey } from './client.ts'
import type { World } from './world.ts'

const JOBS = { email: sendEmail, sms: sendSms }
export const SENDER = '+15551234567'

/** The variables without which the API accepts no messages, where nobody sends them. */
export const MESSAGE_SENDERS = {
  SMTP_URL: 'smtp://127.0.0.1:9',
  EMAIL_FROM: 'Shop <mail@shop.example>',
  TWILIO_ACCOUNT_SID: `AC${'0'.repeat(32)}`,
  TWILIO_AUTH_TOKEN: 'token',
  TWILIO_FROM: '+15005550006',
}

export type Wanted = {
  channel: Channel
  to: string[]
  from?: string
  tenant_id?: string
  content?: Partial<MessageContent>
  envelope?: Partial<MessageEnvelope>
  attachments?: string[]
  retries?: boolean
  /** In how many seconds it is to go. */
  in_s?: number
  /** Its job is due only then; at once unless told. */
  due_in_s?: number
}

export function hashOf(world: Pick<World, 'env'>): AddressHash {
  return createAddressHash(world.env['ADDRESS_KEY']!)
}

/** Accepts a message. Answers its id. */
export async function acceptMessage(world: World, wanted: Wanted): Promise<string> {
  const { sql, env } = world
  const { channel, to, tenant_id = world.tenant_id, retries = true, in_s } = wanted
  const from = wanted.from ?? (channel === 'sms' ? SENDER : 'Shop <mail@shop.example>')
  const id = newId()
  const vault = createVault(env['ENCRYPTION_KEY']!)
  const hash = hashOf(world)
  const envelope: MessageEnvelope = {
    from,
    to,
    cc: null,
    bcc: null,
    reply_to: null,
    subject: channel === 'email' ? 'Your order has shipped' : null,
    list_unsubscribe_url: null,
    ...wanted.envelope,
  }
  const content: MessageContent = {
    text: channel === 'email' ? 'It is on its way.' : null,
    html: null,
    body: channel === 'sms' ? 'It is on its way.' : null,
    headers: null,
    attachments: null,
    validity_s: null,
    ...wanted.content,
  }
  const addresses = [...envelope.to, ...(envelope.cc ?? []), ...(envelope.bcc ?? [])]
  const recipients = addresses.map((address) => ({
    address: hash(channel, address),
    status: null,
    code: null,
    message: null,
  }))
  const seal = (what: unknown, column: 'envelope' | 'content') =>
    vault.seal(JSON.stringify(what), messagePlace(tenant_id, id, column))
  const at = (seconds: number | undefined) =>
    seconds === undefined ? sql`null::timestamptz` : sql`now() + ${seconds} * interval '1 second'`
  const job = JOBS[channel]
  await sql`
    with m as (
      insert into messages (tenant_id, id, idempotency_key, channel, status, envelope, content, sender, recipients,
        provider, segments, encoding, send_at)
      values (${tenant_id}, ${id}, ${freshKey()}, ${channel}, ${in_s === undefined ? 'queued' : 'scheduled'},
        ${seal(envelope, 'envelope')}, ${seal(content, 'content')}, ${channel === 'sms' ? hash('sms', from) : null},
        ${sql.json(recipients)}, ${PROVIDER_OF[channel]}, ${channel === 'sms' ? 1 : null},
        ${channel === 'sms' ? 'GSM-7' : null}, ${at(in_s)})
      returning *
    ), event as (${announce(sql, 'message', sql`select m.*, ${newId()}::uuid as event_id, 'message.created' as event from m`)})
    ${enqueue(
      sql,
      job,
      sql`
        select ${newId()}::uuid as job_id, tenant_id, id as subject_id, jsonb_build_object('message_id', id) as payload,
          false as rung, null::text as dedupe_key, null::text as request_id,
          ${requestJson(sql, job, { retries: sql`${retries}::boolean` })} as request
        from m`,
      sql`coalesce(${at(wanted.due_in_s ?? in_s)}, now())`,
    )}`
  for (const [nth, file] of (wanted.attachments ?? []).entries())
    await sql`
      insert into message_attachments (tenant_id, message_id, nth, content)
      values (${tenant_id}, ${id}, ${nth}, ${vault.seal(file, attachmentPlace(tenant_id, id, nth))})`
  return id
}

/** How a message stands, and its job. */
export async function standsAs({ sql }: World, id: string) {
  const [row] = await sql<
    {
      status: string
      recipients: (string | null)[]
      failure: string | null
      reference: string | null
      job: string | null
      outcome: string | null
      error: Record<string, string> | null
      parked: boolean
      events: string[]
    }[]
  >`
    select m.status, m.failure ->> 'code' as failure, m.provider_reference as reference, j.state as job, j.outcome,
      j.last_error as error, j.run_at = 'infinity' as parked,
      jsonb_path_query_array(m.recipients, '$[*].status') as recipients,
      array(select split_part(type, '.', 2) from events where subject_id = m.id order by sequence) as events
    from messages m left join jobs j on j.subject_id = m.id where m.id = ${id}`
  return row!
}

/** The suppressions of everybody, oldest first, as `reason`, or `reason lifted`. */
export async function suppressionsOf(
  world: World,
  channel: Channel,
  address: string,
): Promise<{ tenant_id: string; reason: string; lifted: boolean; sealed: string | null; id: string }[]> {
  return await world.sql`
    select tenant_id, id, reason, deleted_at is not null as lifted, sealed from suppressions
    where channel = ${channel} and address = ${hashOf(world)(channel, address)} order by created_at`
}

/** Posts as Twilio does. `url`: where it was told to call, which it signs. */
export async function postTwilio(
  world: World,
  path: string,
  parameters: Record<string, string>,
  { token, url }: { token: string; url: string },
): Promise<{ status: number; text: string; type: string | null }> {
  const text = Object.entries(parameters)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => `${name}${value}`)
    .join('')
  const response = await fetch(`${world.config.WEBHOOKS_URL}${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-www-form-urlencoded; charset=utf-8',
      'x-twilio-signature': createHmac('sha1', token).update(`${url}${path}${text}`).digest('base64'),
    },
    body: new URLSearchParams(parameters).toString(),
  })
  return {
    status: response.status,
    text: await response.text(),
    type: response.headers.get('content-type'),
  }
}

let told = 0

/** Posts an event of an email as whatever watches a relay does. */
export async function postEmail(
  { config }: { config: Pick<World['config'], 'WEBHOOKS_URL'> },
  event: unknown,
  { secret, id = `msg_${(told += 1)}`, at = new Date() }: { secret: string; id?: string; at?: Date },
): Promise<{ status: number; body: any }> {
  const body = JSON.stringify(event)
  const response = await fetch(`${config.WEBHOOKS_URL}/email`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(secret).sign(id, at, body),
    },
    body,
  })
  return { status: response.status, body: await response.json() }
}

/** The same address, written in another way. */
export function shouted(address: string): string {
  return bareAddress(address).toUpperCase()
}
