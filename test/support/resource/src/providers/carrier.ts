// The carrier's API: requests and the meaning of the carrier's responses.
import type { ProviderOperation } from '#core/config/providers.ts'
import type { Outcome } from '#core/outcome.ts'
import { NoAnswer, openHttp, type FinishedCall } from './http.ts'

const DEADLINE_MS = 15_000

/** A parcel that the carrier has accepted. `reference` is its tracking number. */
export type ShippedParcel = { reference: string; parcel_id: string; address: string }

/** The client of the carrier. The carrier has no credentials: its URL identifies the account. */
export function openCarrier({ url, onCall }: { url: string; onCall: (call: FinishedCall) => void }) {
  const http = openHttp(url)

  async function call<T>(operation: ProviderOperation, ask: () => Promise<Outcome<T>>): Promise<Outcome<T>> {
    const started = performance.now()
    const outcome = await ask().catch((error: unknown) => {
      if (error instanceof NoAnswer) return error.outcome
      throw error
    })
    onCall({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }

  /** Reads a record. The value is null if the carrier has no such parcel. */
  const read = (operation: ProviderOperation, path: string) =>
    call<ShippedParcel | null>(operation, async () => {
      const { status, body } = await http.send({ path, method: 'GET' }, DEADLINE_MS)
      if (status === 404) return { kind: 'done', value: null }
      const parcel = parcelOf(body)
      return parcel ? { kind: 'done', value: parcel } : { kind: 'retry', reason: `answered ${status}` }
    })

  return {
    name: 'carrier',
    credentials: url,
    findAccount: async (): Promise<Outcome<string>> => ({ kind: 'done', value: url }),
    /** Ships with the stored key of the call. */
    ship: (request: { parcel_id: string; address: string }, key: string) =>
      call<ShippedParcel>('ship', async () => {
        const headers = { 'content-type': 'application/json', 'idempotency-key': key }
        const sent = { path: '/parcels', method: 'POST', headers, body: JSON.stringify(request) } as const
        const { status, body } = await http.send(sent, DEADLINE_MS)
        const parcel = parcelOf(body)
        if (parcel) return { kind: 'done', value: parcel }
        if (status !== 422) return { kind: 'ambiguous', reason: `answered ${status}`, replayed: false }
        const message = 'The carrier does not go there.'
        return { kind: 'declined', failure: { code: 'parcel_refused', message } }
      }),
    find: (tracking: string) => read('find_parcel', `/parcels/${tracking}`),
    /** Finds a parcel by our own id in the carrier's complete list. */
    search: (parcel_id: string) => read('search_parcel', `/parcels?parcel_id=${parcel_id}`),
    close: () => http.close(),
  }
}

function parcelOf({ tracking, parcel_id, address }: Record<string, unknown>): ShippedParcel | null {
  if (typeof tracking !== 'string' || typeof parcel_id !== 'string' || typeof address !== 'string')
    return null
  return { reference: tracking, parcel_id, address }
}
