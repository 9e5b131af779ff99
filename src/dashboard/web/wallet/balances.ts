// The balances of the tenant.
import type { UseQueryResult } from '@tanstack/react-query'
import type { WalletBalance } from '#sdk/index.ts'
import type { Option } from '../kit/filter-fields.ts'
import { useAnswer } from '../queries.ts'
import { useAreaState } from '../session.tsx'

/** Polls the balances. If the wallet is not deployed, nothing is read. */
export function useBalances(): UseQueryResult<WalletBalance[]> {
  const enabled = useAreaState('wallet') === 'deployed'
  return useAnswer<WalletBalance[]>('/v1/wallet/balances', undefined, { interval_ms: 10_000, enabled })
}

export type CurrencyFilter = {
  kind: 'select'
  name: 'currency'
  label: string
  options: (chosen: string) => Option[]
}

/** A filter by currency. Its options are the currencies with a balance, and the currency of the address. */
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
