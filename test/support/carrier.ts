// The provider of the resource that the test `adding-a-resource` adds: a carrier that ships parcels.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { until } from './process.ts'

type Carrier = {
  url: string
  /** The key of each call, in the order of the calls. */
  keys: string[]
  /**
   * The carrier ships the parcel of the first call under each key, and closes the connection. `repeats`: it answers
   * later calls under the key. `refuses_repeats`: it declines them. `silent`: it ships nothing and answers no call.
   */
  behavior: 'repeats' | 'refuses_repeats' | 'silent'
  /** Whether lookups find no parcel. */
  hides_parcels: boolean
}
type ShippedParcel = { tracking: string; parcel_id: string; address: string }

/** Starts a carrier. */
export async function startCarrier(): Promise<Carrier> {
  const parcels: ShippedParcel[] = []
  const server = createServer((request, response) => void answer(carrier, parcels, request, response))
  server.listen(0, '127.0.0.1')
  await until('the carrier listens', () => server.listening)
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const carrier: Carrier = { url, keys: [], behavior: 'repeats', hides_parcels: false }
  return carrier
}

async function answer(
  carrier: Carrier,
  parcels: ShippedParcel[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const reply = (status: number, body: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (request.method === 'GET') {
    const { pathname, searchParams } = new URL(request.url ?? '/', carrier.url)
    const found = parcels.find(
      ({ tracking, parcel_id }) =>
        pathname === `/parcels/${tracking}` || searchParams.get('parcel_id') === parcel_id,
    )
    if (found === undefined || carrier.hides_parcels) reply(404, {})
    else reply(200, found)
    return
  }
  const tracking = `T-${String(request.headers['idempotency-key'])}`
  const requested = (await json(request)) as Omit<ShippedParcel, 'tracking'>
  carrier.keys.push(tracking.slice(2))
  if (carrier.behavior === 'silent') return
  const shipped = parcels.find((each) => each.tracking === tracking)
  if (shipped === undefined) {
    parcels.push({ ...requested, tracking })
    request.socket.destroy()
  } else if (carrier.behavior === 'repeats') reply(200, shipped)
  else reply(422, {})
}
