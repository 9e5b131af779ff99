// Effects tenants by email of their endpoints that were disabled by themselves.
import { metrics } from '#core/metrics.ts'
import { notifyOfDisabled, type NotifiedEndpoint } from '#domain/webhook-endpoints/notify.ts'
import { repeat, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'

const POLL_INTERVAL_MS = 3_000
const BATCH_SIZE = 20

const SKIPPED_REASONS: Record<
  Exclude<NotifiedEndpoint['how'], 'email' | 'too_many' | 'failed' | 'put_off'>,
  string
> = {
  no_contact: 'its tenant has no contact: set one with npm run keys -- contact',
  suppressed: 'email to the contact of its tenant is suppressed: it came back, or was complained about',
}

/**
 * Safe in several workers at once. A worker that cannot say whom email is from, or hash addresses, leaves this to
 * others.
 */
export function startEndpointNotices({ sql, log, vault, hashOf, config }: WorkerContext): Loop[] {
  const { SYSTEM_EMAIL_FROM: from, ADDRESS_KEY } = config
  if (from === undefined || ADDRESS_KEY === undefined) {
    log.info(
      'EMAIL_FROM or ADDRESS_KEY is not set: of endpoints that were disabled, another worker has to tell',
    )
    return []
  }
  let closing = false
  const closed = () => closing
  const loop = repeat(
    log,
    'telling of disabled endpoints',
    () => POLL_INTERVAL_MS,
    async () => {
      const put_off: NotifiedEndpoint[] = []
      let notified: NotifiedEndpoint[]
      do {
        const left_out = put_off.map(({ id }) => id)
        notified = await notifyOfDisabled(sql, { vault, hashOf, from }, BATCH_SIZE, left_out)
        put_off.push(...notified.filter(({ how }) => how === 'put_off'))
        for (const { tenant_id, id, reason, how, error } of notified) {
          if (how === 'put_off') continue
          if (how === 'too_many') {
            const message =
              'the tenant was told of too many disabled endpoints in this hour: of this one it is told later'
            log.warn({ tenant_id, endpoint_id: id }, message)
            continue
          }
          metrics.endpointsDisabled.inc({ reason })
          if (how === 'email')
            log.info({ tenant_id, endpoint_id: id }, 'the tenant is told of a disabled endpoint')
          else if (how === 'failed')
            log.error(
              { err: error, tenant_id, endpoint_id: id },
              'nobody is told of a disabled endpoint: its email cannot be written',
            )
          else
            log.warn(
              { tenant_id, endpoint_id: id },
              `nobody is told of a disabled endpoint: ${SKIPPED_REASONS[how]}`,
            )
        }
      } while (notified.length === BATCH_SIZE && !closed())
      const [first] = put_off
      if (first !== undefined)
        throw new Error(
          `emails about disabled endpoints cannot be written: ${put_off.length}, among them that about ${first.id}`,
          { cause: first.error },
        )
    },
  )
  return [
    {
      async close() {
        closing = true
        await loop.close()
      },
    },
  ]
}
