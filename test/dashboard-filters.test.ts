// Filters of the lists: their types follow the API, and the URL of a page maps to parameters of the API.
import { expect, test } from 'vitest'
import { LIST_FILTERS } from '../src/dashboard/web/generated/filters.ts'
import { fieldsOf, activeFilters, parametersOf } from '../src/dashboard/web/kit/filter-fields.ts'

test('a filter that the list does not support, and labels that lack a value, do not compile', () => {
  const mistakes = () => {
    // @ts-expect-error -- payouts have no customer
    fieldsOf('/v1/payouts', [{ kind: 'text', name: 'customer_id', label: 'Customer' }])
    // @ts-expect-error -- a day is not a text
    fieldsOf('/v1/payouts', [{ kind: 'text', name: 'created_from', label: 'Created' }])
    const toParameters = (customer: string) => ({ customer })
    // @ts-expect-error -- `customer` is not a parameter
    fieldsOf('/v1/payouts', [{ kind: 'text', name: 'who', label: 'Who', toParameters }])
    const labels = { pending: 'Pending', failed: 'Failed' }
    // @ts-expect-error -- the labels lack succeeded
    fieldsOf('/v1/refunds', [{ kind: 'choice', name: 'status', label: 'Status', labels }])
  }
  expect(mistakes).toBeInstanceOf(Function)
})

test('a filter of the kind `choice` offers all values of its parameter', () => {
  const [status, kind] = fieldsOf('/v1/ai/tasks', [
    { kind: 'choice', name: 'status', label: 'Status' },
    {
      kind: 'choice',
      name: 'kind',
      label: 'Kind',
      labels: { generate: 'Text', classify: 'Label', extract: 'Data' },
    },
  ])
  expect(status).toMatchObject({
    kind: 'select',
    options: LIST_FILTERS['/v1/ai/tasks'].status.map((value) => expect.objectContaining({ value })),
  })
  expect(kind).toMatchObject({ options: [{ value: 'generate', label: 'Text' }, {}, {}] })
})

test('a text filter is sent as the parameters that it maps to, and counts as an active filter', () => {
  const fields = fieldsOf('/v1/payments', [
    { kind: 'amount', from: 'amount_min', to: 'amount_max', label: 'Amount' },
    {
      kind: 'text',
      name: 'search',
      label: 'Search',
      toParameters: (processor_reference) => ({ processor_reference }),
    },
    { kind: 'text', name: 'note', label: 'Note', toParameters: (note) => ({ 'metadata[note]': note }) },
  ])
  const search = { amount_min: '100', amount_max: '', search: ' pi_1 ', note: 'late', tab: 'other' }
  expect(parametersOf(fields, search)).toEqual({
    processor_reference: 'pi_1',
    'metadata[note]': 'late',
    amount_min: '100',
  })
  expect(activeFilters(fields, search)).toEqual({ amount_min: '100', search: ' pi_1 ', note: 'late' })
  expect(activeFilters(fields, { tab: 'other' })).toEqual({})
})
