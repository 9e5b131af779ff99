// Finds out at the start to which account the credentials of each provider belong. After the credentials are replaced,
// calls that were sent with the earlier ones can still be looked up.
import { providerKey, TEST_KEYS } from '#core/config/providers.ts'
import { throttle } from '#core/seldom.ts'
import { findProvidersOfAccount, storeAccount } from '#domain/jobs/accounts.ts'
import type { WorkerContext } from '../context.ts'
import { repeatWhileCurrent, type Loop } from '../clock.ts'

const FIRST_DELAY_MS = 100
const RETRY_DELAY_MS = 60_000
const WARN_INTERVAL_MS = 24 * 3_600_000

/** Queries each provider for its account in each mode that has one, until the provider answers. */
export function startAccountDiscovery({ sql, log, database, modes, config }: WorkerContext): Loop {
  const has_test_account = Object.values(TEST_KEYS).some((name) => config[name] !== undefined)
  const open = new Map(
    (has_test_account ? [true, false] : [true]).flatMap((livemode) =>
      Object.entries(modes.contextOf(livemode).credentials).map(
        ([provider, of_provider]) => [providerKey(provider, livemode), of_provider] as const,
      ),
    ),
  )
  let interval_ms = FIRST_DELAY_MS
  const warn = throttle(
    (suppressed, provider: string, reason: string) =>
      log.warn(
        { provider, reason, suppressed },
        'the account of our credentials is unknown: if the credentials are replaced, unknown calls stay unknown until an operator resolves them',
      ),
    WARN_INTERVAL_MS,
  )
  const warnOfSharedAccount = (provider: string, providers: string[]) => {
    const [other] = providers.filter((each) => each !== provider)
    if (other !== undefined)
      log.error(
        { provider, other },
        'live tenants and tenants in test mode use one account of a provider: its notifications may reach neither. Use the key of another account for one of them',
      )
  }
  return repeatWhileCurrent(
    { log, database },
    'accounts of providers',
    () => (open.size === 0 ? WARN_INTERVAL_MS : interval_ms),
    async () => {
      interval_ms = RETRY_DELAY_MS
      for (const [provider, { fingerprint, findAccount }] of open) {
        const found = await findAccount()
        if (found.kind !== 'done') {
          warn(provider, found.kind === 'declined' ? found.failure.message : found.reason)
          continue
        }
        await storeAccount(sql, { provider, credentials: fingerprint }, found.value)
        open.delete(provider)
        warnOfSharedAccount(provider, await findProvidersOfAccount(sql, found.value))
      }
    },
  )
}
