// The lists of objects of all providers of money and identity, without any other access to them.
import type { Config } from '#core/config.ts'
import { openProviders } from './configured.ts'
import type { ObjectLists } from './objects.ts'

export type ProviderList = { provider: string; name: string; read: ObjectLists[string] }

/** The queues whose jobs call these providers, and no others. */
const QUEUES_WITH_LISTS = ['payments', 'payouts', 'compliance']

/** Opens the lists. Throws ConfigError if a provider is not configured. */
export function openProviderLists(config: Config): { lists: ProviderList[]; close(): Promise<void> } {
  const opened = openProviders(config, QUEUES_WITH_LISTS, () => {})
  const { processor, payouts, top_ups, identity } = opened.providers
  const lists = [processor, payouts, top_ups, identity].flatMap(({ name: provider, lists: own }) =>
    Object.entries(own).map(([name, read]) => ({ provider, name, read })),
  )
  return { lists, close: () => opened.close() }
}
