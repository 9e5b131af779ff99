// The carrier's API: requests and the meaning of the carrier's responses.
import type { Outcome } from '#core/outcome.ts'
import { NoAnswer, openHttp, type FinishedCall } from './http.ts'

const DEADLINE_MS = 15_000

/** Ships with the stored key of the call. The outcome's value is the tracking number. */
export function openCarrier({ url, onCall }: { url: string; onCall: (call: FinishedCall) => void }) {
  const http = openHttp(url)

  async function call<T>(operation: string, ask: () => Promise<Outcome<T>>): Promise<Outcome<T>> {
    const started = performance.now()
    const outcome = await ask().catch((error: unknown) => {
      if (error instanceof NoAnswer) return error.outcome
      throw error
    })
    onCall({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }

  return {
    name: 'carrier',
    ship: (request: { address: string }, key: string) =>
      call<string>('ship', async () => {
        const headers = { 'content-type': 'application/json', 'idempotency-key': key }
        const sent = { path: '/parcels', method: 'POST', headers, body: JSON.stringify(request) }
        const { status, body } = await http.send(sent, DEADLINE_MS)
        if (typeof body['tracking'] === 'string') return { kind: 'done', value: body['tracking'] }
        if (status !== 422) return { kind: 'ambiguous', reason: `answered ${status}`, replayed: false }
        const message = 'The carrier does not go there.'
        return { kind: 'declined', failure: { code: 'processor_error', message } }
      }),
    /** The value is null if the carrier has no such parcel. */
    find: (tracking: string) =>
      call<{ status: string; tracking: string } | null>('find', async () => {
        const sent = { path: `/parcels/${tracking}`, method: 'GET' as const }
        const { status } = await http.send(sent, DEADLINE_MS)
        return { kind: 'done', value: status === 404 ? null : { status: 'shipped', tracking } }
      }),
    close: () => http.close(),
  }
}
