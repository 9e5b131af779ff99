// Sends requests that must be refused, and checks that nothing was stored.
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { requestBytes, sendBytes } from './raw.ts'
import { freshKey } from './client.ts'
import { testIn, type World } from './world.ts'

export const CREATE_CUSTOMER = ['POST /v1/customers']
export const CREATE_PAYMENT = ['POST /v1/payments']
export const CREATES = [...CREATE_CUSTOMER, ...CREATE_PAYMENT, 'POST /v1/recipients', 'POST /v1/merchants']
const WRITES = [...CREATES, 'PATCH /v1/customers/{id}']

/** A summary of all business data: row counts and latest changes. */
export async function stored({ sql }: Pick<World, 'sql'>): Promise<string> {
  const [row] = await sql`
    select (select count(*) from customers) as customers, (select max(updated_at) from customers) as customer_changed,
      (select count(*) from recipients) as recipients, (select max(updated_at) from recipients) as recipient_changed,
      (select count(*) from merchants) as merchants, (select max(updated_at) from merchants) as merchant_changed,
      (select count(*) from payments) as payments, (select max(updated_at) from payments) as payment_changed,
      (select count(*) from refunds) as refunds, (select max(updated_at) from refunds) as refund_changed,
      (select count(*) from disputes) as disputes, (select max(updated_at) from disputes) as dispute_changed,
      (select count(*) from payouts) as payouts, (select max(updated_at) from payouts) as payout_changed,
      (select sum(reserved_minor) from ledger_accounts) as reserved,
      (select count(*) from verifications) as verifications,
      (select max(updated_at) from verifications) as verification_changed,
      (select count(*) from ai_tasks) as ai_tasks, (select max(updated_at) from ai_tasks) as ai_task_changed,
      (select count(*) from messages) as messages, (select max(updated_at) from messages) as message_changed,
      (select count(*) from message_attachments) as files,
      (select count(*) from top_ups) as top_ups, (select max(updated_at) from top_ups) as top_up_changed,
      (select count(*) from messages) as messages, (select max(updated_at) from messages) as message_changed,
      (select count(*) from templates) as templates, (select max(updated_at) from templates) as template_changed,
      (select count(*) from suppressions) as suppressions,
      (select max(updated_at) from suppressions) as suppression_changed,
      (select count(*) from webhook_endpoints) as endpoints,
      (select max(updated_at) from webhook_endpoints) as endpoint_changed,
      (select count(*) from webhook_deliveries) as deliveries, (select count(*) from webhook_recoveries) as recoveries,
      (select count(*) from events) as events, (select count(*) from ledger_transfers) as transfers,
      (select count(*) from jobs where tenant_id <> ${SYSTEM_TENANT_ID}) as jobs,
      (select count(*) from idempotency_keys) as keys`
  return JSON.stringify(row)
}

/** Headers of a JSON request with the API key of the world's first tenant. */
export function jsonHeaders(world: World): Record<string, string> {
  return { authorization: `Bearer ${world.client.key}`, 'content-type': 'application/json' }
}

type Expected = { status?: number; headers?: Record<string, string>; routes?: string[]; param?: string }

/**
 * The `test` of a file whose tests share a customer and an API without a worker. `accepted` returns the bodies that
 * the API did not refuse as expected: see `notRefused`.
 */
export function testRefusals() {
  return testIn({ parts: ['api'] })
    .extend('customer_id', { scope: 'file' }, async ({ client }) => {
      const created = await client.post('/v1/customers', { idempotency_key: freshKey(), name: 'Ada' })
      return created.body.id as string
    })
    .extend(
      'accepted',
      { scope: 'file' },
      ({ world, customer_id }) =>
        (bodies: (string | Buffer)[], expected?: Expected) =>
          notRefused(world, customer_id, bodies, expected),
    )
}

/**
 * Sends each body to each route. A body is refused as expected if the answer has `status` and a complete error that
 * names `param` (default: any), and nothing was stored. Returns the other bodies, with their routes and answers.
 * `customer_id` fills the paths.
 */
async function notRefused(
  world: World,
  customer_id: string,
  bodies: (string | Buffer)[],
  { status = 400, headers = {}, routes = WRITES, param }: Expected = {},
): Promise<string[]> {
  const not_refused: string[] = []
  for (const body of bodies) {
    for (const route of routes) {
      const before = await stored(world)
      const [method, path] = route.replace('{id}', customer_id).split(' ') as [string, string]
      const bytes = requestBytes(method, path, { ...jsonHeaders(world), ...headers }, body)
      const answer = await sendBytes(world.client.url, bytes)
      const error = answer.body?.error
      const explained =
        typeof error?.code === 'string' &&
        /\w/.test(error.message) &&
        (param === undefined || error.param === param)
      if (answer.status !== status || !explained || (await stored(world)) !== before)
        not_refused.push(`${route} ${body.toString().slice(0, 200)} => ${answer.status} ${answer.text}`)
    }
  }
  return not_refused
}
