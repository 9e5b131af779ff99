// What the list of payments is filtered by: its address, and what the text of `Search` names.
import type { Payment } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { UUID } from '../kit/Id.tsx'
import { useList, singlePageList, type ListSource, type ListState, type TableList } from '../kit/list.ts'
import { useAnswer } from '../queries.ts'

/** The customers who have the email that was searched for, newest first. */
export type EmailSearch = { text: string; customer_ids: string[] }

/** `key=value` as the API takes it; undefined when it is nothing of that kind. */
export function metadataFilter(text: string): Record<string, string> | undefined {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  return key === undefined || value === undefined ? undefined : { [`metadata[${key.trim()}]`]: value.trim() }
}

/** The parameters that the text of `Search` stands for. Whose an email is must be looked up first. */
export function searchParameters(text: string): { customer_id?: string; processor_reference?: string } {
  if (UUID.test(text)) return { customer_id: text }
  return text.includes('@') ? {} : { processor_reference: text }
}

/**
 * The payment of the id that was searched for, or else the payments of a customer, by id or by email, or those with a
 * reference of the processor.
 */
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
