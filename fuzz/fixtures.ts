// Records of a fuzzed tenant: each resource in the states that requests need.
import { randomInt } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Channel } from '#core/addresses.ts'
import { freshKey, type Client } from '#test/client.ts'
import { startVerification } from '#test/verifications.ts'
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { capturedPayment, authorizedPayment, refund } from '#test/payments.ts'
import { payOut, recipient } from '#test/payouts.ts'
import { topUp } from '#test/top-ups.ts'

const AUTHORIZED_MINOR = 100_000
/** No server listens at this URL. */
export const UNREACHABLE_URL = 'http://127.0.0.1:9/hook'
const PREFER_WAIT = { prefer: 'wait=10' }

/** Additional fields of the tenant's payments, of its customers, and of all other records (`record`). */
export type FixtureFields = {
  payment?: Record<string, unknown>
  customer?: Record<string, unknown>
  record?: Record<string, unknown>
}

/** A time after the end of the fuzzing. */
export function inAnHour(): string {
  return new Date(Date.now() + 3_600_000).toISOString()
}

/** The client and the fields of a fuzzed tenant. */
type Context = Required<FixtureFields> & {
  client: Client
  /** The id of a record, which is created if it does not exist yet. */
  find: (name: string) => Promise<string>
  /** The ids of the existing records. */
  existingIds: () => Set<string>
}
type Creators = Record<string, () => Promise<string>>

/** Creates a tenant's records when they are first needed, and again after they were used up. */
export function createFixtures(
  client: Client,
  { payment = {}, customer = {}, record = {} }: FixtureFields = {},
) {
  const ids = new Map<string, string>()
  const context = { client, payment, customer, record, find, existingIds: () => new Set(ids.values()) }
  const creators: Creators = {
    ...partyCreators(context),
    ...paymentCreators(context),
    ...payoutCreators(context),
    ...messageCreators(context),
    ...templateCreators(context),
    ...endpointCreators(context),
  }
  async function find(name: string): Promise<string> {
    const existing = ids.get(name)
    if (existing !== undefined) return existing
    const make = creators[name]
    // A mutated placeholder has no creator and is returned unchanged.
    if (make === undefined) return `@{${name}}`
    const id = await make()
    ids.set(name, id)
    return id
  }
  return {
    find,
    /** Forgets the records whose ids are in this text. */
    forget(text: string): void {
      for (const [name, id] of ids) if (text.includes(id)) ids.delete(name)
    },
  }
}

async function createCustomer({ client, customer }: Context): Promise<string> {
  const body = { idempotency_key: freshKey(), name: 'Ada', ...customer }
  return (await client.post('/v1/customers', body)).body.id
}

async function capture({ client, payment }: Context): Promise<any> {
  return await capturedPayment(client, { amount_minor: AUTHORIZED_MINOR, ...payment })
}

/** Customers, recipients, merchants, their verifications, and AI tasks. */
function partyCreators(context: Context): Creators {
  const { client, customer, record } = context
  const verification = async (): Promise<any> => {
    return (await startVerification(client, { subject_id: await createCustomer(context), ...record })).body
  }
  return {
    customer: () => createCustomer(context),
    async recipient() {
      // The capture creates a balance to pay out.
      await capture(context)
      const body = { idempotency_key: freshKey(), ...RECIPIENT, ...record }
      return (await client.post('/v1/recipients', body)).body.id
    },
    async merchant() {
      const body = { idempotency_key: freshKey(), ...MERCHANT, ...record }
      return (await client.post('/v1/merchants', body)).body.id
    },
    kyc: async () => (await verification()).id,
    session_reference: async () => (await verification()).provider_reference,
    async decided_kyc() {
      const { id } = await verification()
      await client.post(`/v1/compliance/kyc/${id}/decide`, { decision: 'rejected', reason: 'Seen.' })
      return id
    },
    async ai_task() {
      const input = { prompt: JSON.stringify(record) }
      const body = { idempotency_key: freshKey(), kind: 'generate', input, ...record }
      return (await client.post('/v1/ai/tasks', body, PREFER_WAIT)).body.id
    },
    async key() {
      const idempotency_key = freshKey()
      await client.post('/v1/customers', { idempotency_key, ...customer })
      return idempotency_key
    },
  }
}

/** Payments, refunds and disputes. */
function paymentCreators(context: Context): Creators {
  const { client, payment, find } = context
  const authorized = async () =>
    (await authorizedPayment(client, { amount_minor: AUTHORIZED_MINOR, ...payment })).id
  const dispute = async (): Promise<any> => {
    const { id } = await capturedPayment(client, {
      amount_minor: 1000,
      ...payment,
      payment_method: 'pm_card_createDispute',
    })
    for (;;) {
      const [found] = (await client.get(`/v1/disputes?payment_id=${id}`)).body
      if (found?.amount_withdrawn_minor === 1000) return found
      await sleep(20)
    }
  }
  return {
    event: async () => (await client.get(`/v1/payments/${await find('authorized')}/events`)).body[0].id,
    authorized,
    captured: async () => (await capture(context)).id,
    async refunded() {
      const { id } = await capture(context)
      await refund(client, id)
      return id
    },
    async refund() {
      const { metadata } = payment
      const body = { amount_minor: 100, ...(metadata !== undefined && { metadata }) }
      return (await refund(client, (await capture(context)).id, body)).body.id
    },
    refund_reference: async () => {
      return (await refund(client, (await capture(context)).id, { amount_minor: 100 })).body
        .processor_reference
    },
    reference: async () => (await capture(context)).processor_reference,
    dispute: async () => (await dispute()).id,
    dispute_reference: async () => (await dispute()).processor_reference,
  }
}

/** Payouts and top-ups. */
function payoutCreators(context: Context): Creators {
  const { client, payment, record } = context
  const payout = async (destination: string): Promise<any> => {
    await capture(context)
    const to = await recipient(client, destination)
    return (await payOut(client, to, { description: payment['description'], ...record }, PREFER_WAIT)).body
  }
  const toppedUp = async () => (await topUp(client, { source: 'src_manual', ...record }, PREFER_WAIT)).body
  return {
    payout: async () => (await payout('ba_manual')).id,
    pending_payout: async () => (await payout('ba_pending')).id,
    payout_reference: async () => (await payout('ba_manual')).processor_reference,
    transfer_reference: async () => (await payout('acct_success')).processor_reference,
    top_up: async () => (await toppedUp()).id,
    top_up_reference: async () => (await toppedUp()).processor_reference,
  }
}

/** Messages, their senders and their recipients. */
function messageCreators(context: Context): Creators {
  const { client, record, find } = context
  const message = async (channel: Channel, content: object): Promise<any> => {
    // A new recipient each time, which is not suppressed.
    const to =
      channel === 'email' ? [`${freshKey()}@example.com`] : `+1415${randomInt(2_000_000, 10_000_000)}`
    const body = { idempotency_key: freshKey(), to, ...content, ...record }
    return (await client.post(`/v1/messages/${channel}`, body, PREFER_WAIT)).body
  }
  const messageOf = async (channel: Channel) => (await client.get(`/v1/messages/${await find(channel)}`)).body
  return {
    address: async () => (await messageOf('email')).to[0],
    number: async () => (await messageOf('sms')).to,
    sender: async () => (await messageOf('sms')).from,
    email: async () => (await message('email', { subject: 'Hello', text: JSON.stringify(record) })).id,
    sms: async () => (await message('sms', { body: JSON.stringify(record) })).id,
    sms_reference: async () => (await messageOf('sms')).provider_reference,
    scheduled: async () => {
      return (await message('email', { subject: 'Later', text: 'Later', send_at: inAnHour() })).id
    },
    scheduled_sms: async () => (await message('sms', { body: 'Later', send_at: inAnHour() })).id,
  }
}

/** Templates and suppressions. */
function templateCreators({ client, record }: Context): Creators {
  return {
    async template() {
      const body = {
        name: freshKey(),
        channel: 'email',
        subject: 'Hello {{ name }}',
        text: 'Hello',
        ...record,
      }
      return (await client.post('/v1/messages/templates', body)).body.id
    },
    async sms_template() {
      const body = { name: freshKey(), channel: 'sms', body: 'Hello {{ name }}', ...record }
      return (await client.post('/v1/messages/templates', body)).body.id
    },
    async suppression() {
      const body = { channel: 'email', address: `${freshKey()}@example.com`, ...record }
      return (await client.post('/v1/messages/suppressions', body)).body.id
    },
  }
}

/** Endpoints, deliveries and recoveries. */
function endpointCreators(context: Context): Creators {
  const { client, record, find, existingIds } = context
  /** A tenant has at most twenty endpoints, so an endpoint that no fixture uses is deleted. */
  const endpoint = async (): Promise<any> => {
    for (;;) {
      const body = {
        idempotency_key: freshKey(),
        url: UNREACHABLE_URL,
        types: ['payout.canceled'],
        ...record,
      }
      const answer = await client.post('/v1/webhook_endpoints', body)
      if (answer.status !== 422) return answer.body
      const existing = existingIds()
      const all = (await client.get('/v1/webhook_endpoints?limit=100')).body as { id: string }[]
      await client.delete(`/v1/webhook_endpoints/${all.find(({ id }) => !existing.has(id))!.id}`)
    }
  }
  return {
    endpoint: async () => (await endpoint()).id,
    async disabled_endpoint() {
      const { id } = await endpoint()
      await client.patch(`/v1/webhook_endpoints/${id}`, { status: 'disabled' })
      return id
    },
    delivery: async () => (await client.post(`/v1/webhook_endpoints/${await find('endpoint')}/test`)).body.id,
    async recovery() {
      const { id } = await endpoint()
      return (await client.post(`/v1/webhook_endpoints/${id}/recover`, { since: '2026-01-01T00:00:00Z' }))
        .body.id
    },
  }
}
