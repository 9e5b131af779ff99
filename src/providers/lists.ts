// The lists of objects of all providers of money and identity.
import type { Config } from '#core/config.ts'
import { openProviders, type Providers } from './configured.ts'
import type { ObjectLists } from './objects.ts'

/** `area`: the area of the objects. */
export type ProviderList = {
  provider: string
  area: 'payments' | 'payouts' | 'wallet' | 'compliance'
  name: string
  read: ObjectLists[string]
}

/** The lists in the order in which they are read: payments before refunds. */
export function listsOfProviders({
  processor,
  payouts,
  top_ups,
  identity,
}: Pick<Providers, 'processor' | 'payouts' | 'top_ups' | 'identity'>): ProviderList[] {
  const of_areas = [
    { area: 'payments', of: processor },
    { area: 'payouts', of: payouts },
    { area: 'wallet', of: top_ups },
    { area: 'compliance', of: identity },
  ] as const
  return of_areas.flatMap(({ area, of }) =>
    Object.entries(of.lists).map(([name, read]) => ({ provider: of.name, area, name, read })),
  )
}

/** The queues whose jobs call these providers, and no others. */
const QUEUES_WITH_LISTS = ['payments', 'payouts', 'compliance']

/** Opens the lists without any other access to the providers. Throws ConfigError if one is not configured. */
export function openProviderLists(config: Config): { lists: ProviderList[]; close(): Promise<void> } {
  const opened = openProviders(config, QUEUES_WITH_LISTS, () => {})
  return { lists: listsOfProviders(opened.providers), close: () => opened.close() }
}
