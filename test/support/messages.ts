// Helpers for messages: signed notifications, and the stored state.
import { createHmac } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { bareAddress, createAddressHash, type AddressHash, type Channel } from '#core/addresses.ts'
import type { World } from './world.ts'

/** Variables that the API needs to accept messages. No message is sent with them. */
export const MESSAGE_SENDERS = {
  SMTP_URL: 'smtp://127.0.0.1:9',
  EMAIL_FROM: 'Shop <mail@shop.example>',
  TWILIO_ACCOUNT_SID: `AC${'0'.repeat(32)}`,
  TWILIO_AUTH_TOKEN: 'token',
  TWILIO_FROM: '+15005550006',
}

export function hashOf(world: Pick<World, 'env'>): AddressHash {
  return createAddressHash(world.env['ADDRESS_KEY']!)
}

/** The state of a message and its job. */
export async function readMessageState({ sql }: World, id: string) {
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
      array(select split_part(type, '.', 2) from events where subject_id = m.id order by created_at) as events
    from messages m left join jobs j on j.resource_id = m.id where m.id = ${id}`
  return row!
}

/** The suppressions of an address in all tenants, oldest first. */
export async function suppressionsOf(
  world: World,
  channel: Channel,
  address: string,
): Promise<{ tenant_id: string; reason: string; lifted: boolean; sealed: string | null; id: string }[]> {
  return await world.sql`
    select tenant_id, id, reason, deleted_at is not null as lifted, sealed from suppressions
    where channel = ${channel} and address = ${hashOf(world)(channel, address)} order by created_at`
}

/** Posts a callback as Twilio does. `url`: the callback URL that the signature covers. */
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

let message_count = 0

/** Posts an email event as a relay does. */
export async function postEmail(
  { config }: { config: Pick<World['config'], 'WEBHOOKS_URL'> },
  event: unknown,
  { secret, id = `msg_${(message_count += 1)}`, at = new Date() }: { secret: string; id?: string; at?: Date },
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

/** The same email address in upper case. */
export function toUpperCaseAddress(address: string): string {
  return bareAddress(address).toUpperCase()
}
