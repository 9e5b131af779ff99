// Notifies tenants by email of endpoints that were disabled automatically.
import { metrics } from '#core/metrics.ts'
import { notifyOfDisabled, type NotifiedEndpoint } from '#domain/webhook-endpoints/notify.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'
import type { WorkerContext } from '../context.ts'
import { quantity } from '#core/describe.ts'

const POLL_INTERVAL_MS = 3_000
const BATCH_SIZE = 20

const SKIPPED_REASONS: Record<
  Exclude<NotifiedEndpoint['how'], 'email' | 'too_many' | 'failed' | 'put_off'>,
  string
> = {
  no_contact: 'it has no contact. Set one with `npm run keys -- contact`',
  suppressed: 'its contact is suppressed after a bounce or a complaint',
}

/**
 * Safe in several workers at once. A worker without the sender address or ADDRESS_KEY leaves this work to other
 * workers.
 */
export function startEndpointNotices(context: WorkerContext): Loop[] {
  const { sql, log, database, idleness, vault, hashOf, config, modes } = context
  const { SYSTEM_EMAIL_FROM: from, ADDRESS_KEY } = config
  if (from === undefined || ADDRESS_KEY === undefined) {
    const missing = from === undefined ? 'EMAIL_FROM' : 'ADDRESS_KEY'
    log.info(`${missing} is not set: another worker has to notify tenants of disabled endpoints`)
    return []
  }
  const loop = repeatWhileCurrent(
    { log, database },
    'notices of disabled endpoints',
    idleness.interval(POLL_INTERVAL_MS),
    async (mustEnd) => {
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
              'the tenant was notified of too many disabled endpoints in this hour: this endpoint follows later'
            log.warn({ tenant_id, endpoint_id: id }, message)
            continue
          }
          // A twin has no contact, because nobody has to act for a test.
          if ((await modes.modeOf(tenant_id)) === 'test') continue
          metrics.endpointsDisabled.inc({ reason })
          if (how === 'email')
            log.info({ tenant_id, endpoint_id: id }, 'the tenant is notified of a disabled endpoint')
          else if (how === 'failed')
            log.error(
              { err: error, tenant_id, endpoint_id: id },
              'the tenant is not notified of a disabled endpoint: the email cannot be written',
            )
          else
            log.warn(
              { tenant_id, endpoint_id: id },
              `the tenant is not notified of a disabled endpoint: ${SKIPPED_REASONS[how]}`,
            )
        }
      } while (notified.length === BATCH_SIZE && !mustEnd())
      const [first] = put_off
      if (first !== undefined)
        throw new Error(
          `${quantity(put_off.length, 'email')} about disabled endpoints cannot be written, for example for ${first.id}`,
          { cause: first.error },
        )
    },
  )
  return [loop]
}
