// Posts an event of the feed to a receiver like a webhook delivery.
import type { Json } from '#core/db.ts'
import { signStandardWebhook } from '#core/standard-webhooks.ts'
import { payloadOf } from '#domain/deliveries/payload.ts'
import { fetchErrorText } from './texts.ts'
import type { FollowedEvent } from './feed.ts'

const TIMEOUT_MS = 15_000
/** The maximum number of bytes to read of a response body. The bytes are discarded. */
const MAX_READ_BYTES = 16 * 1024

/** The status of the response, or the reason why there was no response. */
export type Forwarded = { status: number | null; error: string | null; duration_ms: number }

/**
 * Posts an event to `url` once, signed with a `whsec_...` secret. An abort of `signal` cancels the request. Never
 * rejects.
 */
export async function forwardEvent(
  event: FollowedEvent,
  { url, secret, signal }: { url: string; secret: string; signal: AbortSignal },
): Promise<Forwarded> {
  const { data, ...about } = event
  const body = payloadOf({ ...about, data: data as Json, tenant_id: String(data['tenant_id']) })
  const timestamp_s = Date.now() / 1000
  const started_at = performance.now()
  const elapsedMs = () => Math.round(performance.now() - started_at)
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Sluice-Webhooks/1',
        ...signStandardWebhook({ id: event.id, timestamp_s, body }, [secret]),
      },
      body,
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    const duration_ms = elapsedMs()
    await drainBody(response)
    return { status: response.status, error: null, duration_ms }
  } catch (error) {
    return { status: null, error: fetchErrorText(error, TIMEOUT_MS), duration_ms: elapsedMs() }
  }
}

/**
 * Reads and discards the body: a receiver may log an error if its response is not read. A connection that breaks
 * meanwhile is no error.
 */
async function drainBody({ body }: Response): Promise<void> {
  let bytes = 0
  try {
    for await (const chunk of body ?? []) {
      bytes += (chunk as Uint8Array).length
      if (bytes > MAX_READ_BYTES) return
    }
  } catch {
    // A failure here is ignored: the status was already received.
  }
}
