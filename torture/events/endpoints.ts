// Creates a tenant's webhook endpoints through the API.
import { randomUUID } from 'node:crypto'
import type { Answer, Client } from '#test/client.ts'
import { until } from '#test/process.ts'
import type { ReceiverEndpoint, Receivers } from './receivers.ts'

/** One endpoint: its receiver and the event types that it subscribes to. */
type EndpointSpec = { receiver: 'good' | 'bad'; ordered: boolean; types: string[] }

const LIMIT_MS = 90_000
/** A request may arrive this long after it was signed. */
const MAX_REQUEST_AGE_MS = 20_000

/** Endpoints of tenants with few events. */
export const ALL_EVENTS_ENDPOINTS: EndpointSpec[] = endpointSpecs(['*'], ['*'], ['*'], ['*'])
/**
 * Endpoints of the tenant with most of the load. They subscribe to less than half of its events, because all
 * processes share two cores.
 */
export const BUSY_TENANT_ENDPOINTS: EndpointSpec[] = endpointSpecs(
  ['payment.captured', 'refund.*', 'customer.*'],
  ['payout.*'],
  ['kyc.*', 'message.*'],
  ['kyc.*'],
)
/** One tenant in this many has endpoints and a feed follower. */
export const TENANTS_PER_SUBSCRIBER = 4

function endpointSpecs(
  good: string[],
  good_ordered: string[],
  bad: string[],
  bad_ordered: string[],
): EndpointSpec[] {
  return [
    { receiver: 'good', ordered: false, types: good },
    { receiver: 'good', ordered: true, types: good_ordered },
    { receiver: 'bad', ordered: false, types: bad },
    { receiver: 'bad', ordered: true, types: bad_ordered },
  ]
}

/** Creates the endpoints and registers them with the receivers. Repeats requests that get no answer. */
export async function registerEndpoints(
  receivers: Receivers,
  clients: Client[],
  tenant_id: string,
  all: EndpointSpec[],
): Promise<void> {
  await Promise.all(all.map((each) => registerEndpoint(receivers, clients, tenant_id, each)))
}

async function registerEndpoint(
  { url, endpoints }: Receivers,
  clients: Client[],
  tenant_id: string,
  { receiver, ordered, types }: EndpointSpec,
): Promise<void> {
  const name = `${receiver}-${ordered ? 'ordered' : 'any'}-${tenant_id}`
  const body = {
    idempotency_key: randomUUID(),
    url: `${url[receiver]}/${name}`,
    types,
    ordered,
    ...(!ordered && { max_in_flight: 20 }),
  }
  let created = await postUntilAnswered(clients, '/v1/webhook_endpoints', body)
  // The answer with the secret was lost. No other answer contains the secret, so the secret is rotated.
  const rotated = created.secret === null
  while (created.secret === null) {
    const rotation = { idempotency_key: randomUUID(), grace_s: 0 }
    created = await postUntilAnswered(clients, `/v1/webhook_endpoints/${created.id}/rotate_secret`, rotation)
  }
  const verified_from = performance.now() + (rotated ? MAX_REQUEST_AGE_MS : 0)
  const secrets = [created.secret]
  const endpoint: ReceiverEndpoint = {
    name,
    id: created.id,
    tenant_id,
    types,
    ordered,
    secrets,
    verified_from,
  }
  endpoints.set(name, endpoint)
}

async function postUntilAnswered(
  clients: Client[],
  path: string,
  body: object,
): Promise<{ id: string; secret: string | null }> {
  let attempt = 0
  return await until(
    `POST ${path} is answered`,
    async () => {
      const client = clients[attempt++ % clients.length]!
      const answer: Answer | null = await client.post(path, body).catch(() => null)
      if (answer !== null && answer.status >= 400 && answer.status !== 503)
        throw new Error(`POST ${path}: ${answer.status} ${answer.text}`)
      return answer !== null && answer.status < 300 && (answer.body as { id: string; secret: string | null })
    },
    LIMIT_MS,
  )
}
