// The balances of the tenant, for the pages that show or move them.
import type { UseQueryResult } from '@tanstack/react-query'
import type { WalletBalance } from '#sdk/index.ts'
import type { FilterField } from '../kit/Filters.tsx'
import { useAnswer } from '../queries.ts'
import { useAreaState } from '../session.tsx'

/** Read again every few seconds; where the wallet is switched off, never. */
export function useBalances(): UseQueryResult<WalletBalance[]> {
  const enabled = useAreaState('wallet') === 'deployed'
  return useAnswer<WalletBalance[]>('/v1/wallet/balances', undefined, { every_ms: 10_000, enabled })
}

/** The filter `Currency`: the currencies in which there is something, and that of the address. */
export function useCurrencyFilter(chosen: string | undefined): FilterField {
  const { data = [] } = useBalances()
  const known = new Set(data.map(({ currency }) => currency))
  if (chosen !== undefined && chosen !== '') known.add(chosen)
  return {
    kind: 'select',
    name: 'currency',
    label: 'Currency',
    options: [...known].sort().map((value) => ({ value, label: value.toUpperCase() })),
  }
}
