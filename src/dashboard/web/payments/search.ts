// The search of the list of payments: maps the text of `Search` to parameters.
import type { Payment } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { UUID } from '../kit/Id.tsx'
import { useList, singlePageList, type ListSource, type ListState, type TableList } from '../kit/list.ts'
import { useAnswer } from '../queries.ts'

/** The customers with the searched email, newest first. */
export type EmailSearch = { text: string; customer_ids: string[] }

/** The metadata filter for `key=value`. Undefined: the text has another form. */
export function metadataFilter(text: string): Record<string, string> | undefined {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  return key === undefined || value === undefined ? undefined : { [`metadata[${key.trim()}]`]: value.trim() }
}

/** The parameters for the text of `Search`. An email has none: its customers must be looked up first. */
export function searchParameters(text: string): { customer_id?: string; processor_reference?: string } {
  if (UUID.test(text)) return { customer_id: text }
  return text.includes('@') ? {} : { processor_reference: text }
}

/** Payments that match the search: by id, by the customer's id or email, or by the processor's reference. */
export function useSearchedPayments(payments: ListSource<Payment>): {
  list: TableList<Payment>
  exported?: ListState<Payment>
  email?: EmailSearch | undefined
} {
  const [address] = useAddressSearch()
  const text = address['search']?.trim() ?? ''
  const is_id = UUID.test(text)
  const is_email = !is_id && text.includes('@')
  const found = useAnswer<{ resource: string; id: string }[]>(
    '/find',
    { q: text },
    { enabled: is_id || is_email },
  )
  const is_one = is_id && found.data?.some(({ resource }) => resource === 'payment') === true
  const customer_ids = (is_email ? found.data : undefined)?.map(({ id }) => id)
  const customer_id = customer_ids?.[0]
  const payment = useAnswer<Payment>(`/v1/payments/${text}`, undefined, {
    interval_ms: 10_000,
    enabled: is_one,
  })
  const list = useList(payments, {
    fixed: is_email ? { customer_id } : {},
    enabled: is_email ? customer_id !== undefined : !is_id || (!found.isPending && !is_one),
  })
  if (is_one) return { list: singlePageList(payment, payment.data && [payment.data]) }
  const email = customer_ids && { text, customer_ids }
  if (is_email && customer_id === undefined)
    return { list: { ...singlePageList(found, customer_ids && []), is_filtered: true }, email }
  return { list, exported: list, email }
}
