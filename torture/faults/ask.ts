// What a fault itself asks for, so that it knows whom it meets: accepted on either API, repeated until it is.
import type { Channel } from '#core/addresses.ts'
import { BY_CARD } from '#test/client.ts'
import { until } from '#test/process.ts'
import { bodyOf as messageOf } from '../scenarios/send.ts'
import type { System } from '../system.ts'

/** Of what was asked for; `from` of a message. */
type RequestedResource = { id: string; status: string; processor_reference: string; from: string }

/** As soon as it is accepted; its key is also its description, by which it is known on its way to the processor. */
export async function requestPayment(system: System, key: string): Promise<RequestedResource> {
  return await postUntilAccepted(
    system,
    '/v1/payments',
    { ...bodyOf(key), description: key },
    { prefer: 'respond-async' },
  )
}

/** When its money is held. */
export async function authorizePayment(system: System, key: string): Promise<RequestedResource> {
  return await postUntilAccepted(system, '/v1/payments', bodyOf(key), {}, 'authorized')
}

/** When its money has moved. */
export async function capturePayment(system: System, key: string): Promise<RequestedResource> {
  const { id } = await authorizePayment(system, key)
  const body = { idempotency_key: `${key}-capture` }
  return await postUntilAccepted(system, `/v1/payments/${id}/capture`, body, {}, 'captured')
}

/** As soon as it is accepted. */
export async function requestCapture(
  system: System,
  payment_id: string,
  key: string,
): Promise<RequestedResource> {
  const path = `/v1/payments/${payment_id}/capture`
  return await postUntilAccepted(system, path, { idempotency_key: key }, { prefer: 'respond-async' })
}

/** As soon as it is accepted. */
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

/** As soon as it is accepted; its text names its key. */
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
  let turn = 0
  return await until(`POST ${path} is answered ${status ?? 'at all'}`, async () => {
    const client = clients[turn++ % clients.length]!
    const answer = await client.post(path, body, headers).catch(() => null)
    if (answer === null || answer.status >= 300) return undefined
    const resource = answer.body as RequestedResource
    return status === undefined || resource.status === status ? resource : undefined
  })
}
