// The address of a page: path parameters, and filters in the query.
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'

/** The query of the address. All values are strings. */
export type AddressSearch = Record<string, string | undefined>

export function parseAddress(search: string): AddressSearch {
  return Object.fromEntries(new URLSearchParams(search))
}

export function formatAddress(search: Record<string, unknown>): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(search))
    if (typeof value === 'string' && value !== '') parameters.set(name, value)
  const text = parameters.toString()
  return text === '' ? '' : `?${text}`
}

/** The path parameter `name`, e.g. `id` of `/payments/$id`. */
export function usePathParam(name: string): string {
  const params: Record<string, string | undefined> = useParams({ strict: false })
  return params[name] ?? ''
}

/** The query of the address, and a function that changes some of its values. Undefined removes a value. */
export function useAddressSearch(): [
  AddressSearch,
  (change: AddressSearch, how?: { replace?: boolean }) => void,
] {
  const search: AddressSearch = useSearch({ strict: false })
  const navigate = useNavigate()
  const change = useCallback(
    (changes: AddressSearch, { replace = false }: { replace?: boolean } = {}) => {
      void navigate({
        to: '.',
        search: (before: AddressSearch) => ({ ...before, ...changes }),
        replace,
        resetScroll: false,
      })
    },
    [navigate],
  )
  return [search, change]
}
