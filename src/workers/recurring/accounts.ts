// Learns at the start of which account the credentials of each provider are: when they are replaced, calls that were sent with the
// earlier ones can still be looked up.
import { seldom } from '#core/seldom.ts'
import { keepAccount } from '#domain/jobs/accounts.ts'
import type { WorkerContext } from '../context.ts'
import { every, type Loop } from '../clock.ts'

const FIRST_MS = 100
const AGAIN_MS = 60_000
const WARN_EVERY_MS = 24 * 3_600_000

/** Asks each provider until it has said it. */
export function learnAccounts({ sql, log, credentials }: WorkerContext): Loop {
  const open = new Map(Object.entries(credentials))
  let interval_ms = FIRST_MS
  const warn = seldom(
    (suppressed, provider: string, reason: string) =>
      log.warn(
        { provider, reason, suppressed },
        'it is not known of which account our credentials are: if they are replaced, calls whose effect is unknown then stay unknown until somebody resolves them',
      ),
    WARN_EVERY_MS,
  )
  return every(
    log,
    'accounts of providers',
    () => (open.size === 0 ? WARN_EVERY_MS : interval_ms),
    async () => {
      interval_ms = AGAIN_MS
      for (const [provider, { fingerprint, findAccount }] of open) {
        const found = await findAccount()
        if (found.kind !== 'done') {
          warn(provider, found.kind === 'declined' ? found.failure.message : found.reason)
          continue
        }
        await keepAccount(sql, { provider, credentials: fingerprint }, found.value)
        open.delete(provider)
      }
    },
  )
}
