// What the list of payments is filtered by: its address, and what the text of `Search` names.
import type { Payment } from '#sdk/index.ts'
import { useAddressSearch } from '../address.ts'
import { UUID } from '../kit/Id.tsx'
import { useList, wholeList, type ListState, type TableList } from '../kit/list.ts'
import { useAnswer } from '../queries.ts'

const NAMES = [
  'status',
  'currency',
  'created_from',
  'created_to',
  'customer_id',
  'merchant_id',
  'capture_before_to',
  'amount_min',
  'amount_max',
]

/** The customers who have the email that was searched for, newest first. */
export type SearchedEmail = { text: string; customer_ids: string[] }

/** `key=value` as the API takes it; undefined when it is nothing of that kind. */
export function metadataFilter(text: string): Record<string, string> | undefined {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  return key === undefined || value === undefined ? undefined : { [`metadata[${key.trim()}]`]: value.trim() }
}

/**
 * The payment of the id that was searched for, or else the payments of a customer, by id or by email, or those with a
 * reference of the processor.
 */
export function useSearchedPayments(): {
  list: TableList<Payment>
  exported?: ListState<Payment>
  email?: SearchedEmail | undefined
} {
  const [address] = useAddressSearch()
  const text = address['search']?.trim() ?? ''
  const is_id = UUID.test(text)
  const is_email = text.includes('@')
  const asks = is_id || is_email
  const found = useAnswer<{ noun: string; id: string }[]>('/find', { q: text }, { enabled: asks })
  const is_one = is_id && found.data?.some(({ noun }) => noun === 'payment') === true
  const customer_ids = (is_email ? found.data : undefined)?.map(({ id }) => id)
  const customer_id = customer_ids?.[0]
  const payment = useAnswer<Payment>(`/v1/payments/${text}`, undefined, { every_ms: 10_000, enabled: is_one })
  const list = useList<Payment>('/v1/payments', NAMES, {
    fixed: {
      ...metadataFilter(address['metadata'] ?? ''),
      ...(is_id && { customer_id: text }),
      ...(is_email && { customer_id }),
      ...(!asks && text !== '' && { processor_reference: text }),
    },
    every_ms: 10_000,
    enabled: is_email ? customer_id !== undefined : !is_id || (!found.isPending && !is_one),
  })
  if (is_one) return { list: wholeList(payment, payment.data && [payment.data]) }
  const email = customer_ids && { text, customer_ids }
  if (is_email && customer_id === undefined)
    return { list: { ...wholeList(found, customer_ids && []), filtered: true }, email }
  const filtered = list.filtered || text !== '' || (address['metadata'] ?? '') !== ''
  return { list: { ...list, filtered }, exported: list, email }
}
