// The balances of the tenant, for the pages that show or move them.
import type { UseQueryResult } from '@tanstack/react-query'
import type { WalletBalance } from '#sdk/index.ts'
import type { Option } from '../kit/filter-fields.ts'
import { useAnswer } from '../queries.ts'
import { useAreaState } from '../session.tsx'

/** Read again every few seconds; where the wallet is switched off, never. */
export function useBalances(): UseQueryResult<WalletBalance[]> {
  const enabled = useAreaState('wallet') === 'deployed'
  return useAnswer<WalletBalance[]>('/v1/wallet/balances', undefined, { interval_ms: 10_000, enabled })
}

/** The filter `Currency` of a list. */
export type CurrencyFilter = {
  kind: 'select'
  name: 'currency'
  label: string
  options: (chosen: string) => Option[]
}

/** Offers the currencies in which there is something, and that of the address. */
export function useCurrencyFilter(): CurrencyFilter {
  const { data = [] } = useBalances()
  const currencies = data.map(({ currency }) => currency)
  return {
    kind: 'select',
    name: 'currency',
    label: 'Currency',
    options: (chosen) =>
      [...new Set(chosen === '' ? currencies : [...currencies, chosen])]
        .sort()
        .map((value) => ({ value, label: value.toUpperCase() })),
  }
}
