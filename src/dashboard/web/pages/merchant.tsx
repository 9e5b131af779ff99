// One merchant: its details, payments and verifications.
import type { Merchant, UpdateMerchant } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { PartyPage, type Party } from '../parties/PartyPage.tsx'
import { PaymentsSection } from '../parties/PaymentsSection.tsx'

const ARCHIVED = 'New payments cannot use it. Existing ones can still be captured, canceled and refunded.'

const MERCHANT: Party<Merchant, UpdateMerchant> = {
  type: 'merchant',
  api_path: (id) => `/v1/merchants/${id}`,
  list: 'Merchants',
  fields: [
    { name: 'legal_name', label: 'Legal name', required: true },
    { name: 'display_name', label: 'Display name', required: true },
    { name: 'country', label: 'Country', required: true },
    { name: 'support_email', label: 'Support email', required: true, type: 'email' },
    { name: 'url', label: 'Website', type: 'url' },
  ],
  facts: {
    'Legal name': ({ legal_name }) => legal_name,
    Country: ({ country }) => country,
    'Support email': ({ support_email }) => support_email,
    Website: ({ url }) => url ?? '–',
  },
  update: { may: 'updateMerchant', send: (id, changes) => sluice.merchants.update(id, changes) },
  removedAt: ({ archived_at }) => archived_at,
  removal: {
    verb: 'Archive',
    may: 'archiveMerchant',
    send: (id, options) => sluice.merchants.archive(id, options),
    effect: `${ARCHIVED} Archiving cannot be undone; you would have to create a new merchant.`,
    outcome: 'Archived. New payments cannot use it.',
    removed: ARCHIVED,
  },
  section: (id) => <PaymentsSection by="merchant_id" id={id} />,
}

export const MerchantPage = () => <PartyPage of={MERCHANT} />
