// Requests of the faults themselves, on either API, repeated until they are accepted.
import type { Channel } from '#core/addresses.ts'
import { BY_CARD } from '#test/client.ts'
import { until } from '#test/process.ts'
import { bodyOf as messageOf } from '../scenarios/send.ts'
import type { System } from '../system.ts'

/** The created resource. `from`: the sender of a message. */
type RequestedResource = { id: string; status: string; processor_reference: string; from: string }

/**
 * Requests a payment. Returns as soon as the payment is accepted. The description is the key, by which the request to
 * the processor is recognized.
 */
export async function requestPayment(system: System, key: string): Promise<RequestedResource> {
  return await postUntilAccepted(
    system,
    '/v1/payments',
    { ...bodyOf(key), description: key },
    { prefer: 'respond-async' },
  )
}

/** Requests a payment. Returns when the payment is authorized. */
export async function authorizePayment(system: System, key: string): Promise<RequestedResource> {
  return await postUntilAccepted(system, '/v1/payments', bodyOf(key), {}, 'authorized')
}

/** Requests a payment and its capture. Returns when the payment is captured. */
export async function capturePayment(system: System, key: string): Promise<RequestedResource> {
  const { id } = await authorizePayment(system, key)
  const body = { idempotency_key: `${key}-capture` }
  return await postUntilAccepted(system, `/v1/payments/${id}/capture`, body, {}, 'captured')
}

/** Requests a capture. Returns as soon as the capture is accepted. */
export async function requestCapture(
  system: System,
  payment_id: string,
  key: string,
): Promise<RequestedResource> {
  const path = `/v1/payments/${payment_id}/capture`
  return await postUntilAccepted(system, path, { idempotency_key: key }, { prefer: 'respond-async' })
}

/** Requests a refund. Returns as soon as the refund is accepted. */
export async function requestRefund(
  system: System,
  payment_id: string,
  key: string,
): Promise<RequestedResource> {
  const path = `/v1/payments/${payment_id}/refunds`
  return await postUntilAccepted(
    system,
    path,
    { idempotency_key: key, amount_minor: 100 },
    { prefer: 'respond-async' },
  )
}

/** Requests a message. Returns as soon as the message is accepted. The text of the message contains the key. */
export async function requestMessage(
  system: System,
  channel: Channel,
  key: string,
  to: string,
): Promise<Pick<RequestedResource, 'id' | 'from'>> {
  const body = messageOf(channel, key, to)
  return await postUntilAccepted(system, `/v1/messages/${channel}`, body, { prefer: 'respond-async' })
}

const bodyOf = (idempotency_key: string) => ({ ...BY_CARD, idempotency_key, amount_minor: 1300 })

async function postUntilAccepted(
  { clients }: System,
  path: string,
  body: object,
  headers: Record<string, string>,
  status?: string,
): Promise<RequestedResource> {
  let attempt = 0
  return await until(`POST ${path} is answered with ${status ?? 'any status'}`, async () => {
    const client = clients[attempt++ % clients.length]!
    const answer = await client.post(path, body, headers).catch(() => null)
    if (answer === null || answer.status >= 300) return undefined
    const resource = answer.body as RequestedResource
    return status === undefined || resource.status === status ? resource : undefined
  })
}
