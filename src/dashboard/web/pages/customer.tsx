// One customer: their details, payments and verifications.
import type { Customer, UpdateCustomer } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { PartyPage, type Party } from '../parties/PartyPage.tsx'
import { PaymentsSection } from '../parties/PaymentsSection.tsx'

const CUSTOMER: Party<Customer, UpdateCustomer> = {
  type: 'customer',
  api_path: (id) => `/v1/customers/${id}`,
  list: 'Customers',
  fields: [
    { name: 'name', label: 'Name' },
    { name: 'email', label: 'Email' },
    { name: 'phone', label: 'Phone', type: 'tel' },
    { name: 'external_id', label: 'External id' },
  ],
  facts: {
    Email: ({ email }) => email ?? '–',
    Phone: ({ phone }) => phone ?? '–',
    'External id': ({ external_id }) => <span className="mono">{external_id ?? '–'}</span>,
  },
  update: { may: 'updateCustomer', send: (id, changes) => sluice.customers.update(id, changes) },
  removedAt: ({ deleted_at }) => deleted_at,
  removal: {
    verb: 'Delete',
    may: 'deleteCustomer',
    send: (id, options) => sluice.customers.delete(id, options),
    effect:
      'Name, email, phone and metadata are erased, here and in earlier events. The id and the payments are retained for the books. An open verification is canceled. This cannot be undone.',
    outcome: 'Deleted. The personal data is erased.',
    removed: 'The personal data is erased. Payments and the books are retained.',
  },
  section: (id) => <PaymentsSection by="customer_id" id={id} />,
}

export const CustomerPage = () => <PartyPage of={CUSTOMER} />
