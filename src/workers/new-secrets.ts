// Whether a running worker may use a new value of a secret.
import { providerKey } from '#core/config/providers.ts'
import type { VariableName } from '#core/config/variables.ts'
import { isOneAccount, storeAccount } from '#domain/jobs/accounts.ts'
import { findAccountOfSecret } from '#providers/account-of-secret.ts'
import type { WorkerContext } from './context.ts'

/**
 * Why this worker cannot use a new value of a secret; null if it can. A secret key must belong to the account of the
 * present one: a claim records the credentials of its call, but the call may be sent a moment later with the new key,
 * and lists of another account do not show it.
 */
export async function checkNewSecret(
  { config, sql, modes }: Pick<WorkerContext, 'config' | 'sql' | 'modes'>,
  name: VariableName,
  value: string,
): Promise<string | null> {
  const found = await findAccountOfSecret(config, name, value)
  if (found === null) return null
  const { livemode, fingerprint, account } = found
  const present = modes.contextOf(livemode).credentials[found.provider]
  if (present === undefined) return null
  if (account.kind !== 'done') {
    const reason = account.kind === 'declined' ? account.failure.message : account.reason
    return `the account of the new key is unknown (${reason}), so it cannot replace the present one in a running process. If the key is right, restart the workers.`
  }
  const provider = providerKey(found.provider, livemode)
  await storeAccount(sql, { provider, credentials: fingerprint }, account.value)
  return (await isOneAccount(sql, provider, [present.fingerprint, fingerprint]))
    ? null
    : 'the new key is not known to belong to the account and mode of the present one. If it is right, restart the workers.'
}
