// One merchant: who it is, its payments and its verifications.
import type { Merchant, UpdateMerchant } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { PartyPage, type Party } from '../parties/PartyPage.tsx'
import { PaymentsSection } from '../parties/PaymentsSection.tsx'

const ARCHIVED =
  'No new payment can name it; those that do already are captured, canceled and refunded as before.'

const MERCHANT: Party<Merchant, UpdateMerchant> = {
  type: 'merchant',
  answer: (id) => `/v1/merchants/${id}`,
  list: 'Merchants',
  fields: [
    { name: 'legal_name', label: 'Legal name', required: true },
    { name: 'display_name', label: 'Display name', required: true },
    { name: 'country', label: 'Country', required: true },
    { name: 'support_email', label: 'Support email', required: true, type: 'email' },
    { name: 'url', label: 'Site', type: 'url' },
  ],
  facts: {
    'Legal name': ({ legal_name }) => legal_name,
    Country: ({ country }) => country,
    'Support email': ({ support_email }) => support_email,
    Site: ({ url }) => url ?? '–',
  },
  update: { may: 'updateMerchant', send: (id, changes) => sluice.merchants.update(id, changes) },
  goneAt: ({ archived_at }) => archived_at,
  end: {
    verb: 'Archive',
    may: 'archiveMerchant',
    send: (id, options) => sluice.merchants.archive(id, options),
    does: `${ARCHIVED} Archiving cannot be undone: create another one instead.`,
    outcome: 'Archived. No new payment can name it.',
    gone: ARCHIVED,
  },
  section: (id) => <PaymentsSection by="merchant_id" id={id} />,
}

export const MerchantPage = () => <PartyPage of={MERCHANT} />
