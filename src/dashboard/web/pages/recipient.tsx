// One recipient: its details, payouts and verifications.
import { Button } from '@mantine/core'
import { Banknote } from 'lucide-react'
import type { Recipient, UpdateRecipient } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { useDialogs } from '../dialogs.ts'
import { Id } from '../kit/Id.tsx'
import { humanize } from '../kit/statuses.ts'
import { StatusNote } from '../parties/StatusNote.tsx'
import { PartyPage, type Party } from '../parties/PartyPage.tsx'
import { NewPayout } from '../payouts/NewPayout.tsx'
import { PayoutsSection } from '../payouts/PayoutsSection.tsx'
import { useAreaState, useMay } from '../session.tsx'

const RECIPIENT: Party<Recipient, UpdateRecipient> = {
  type: 'recipient',
  api_path: (id) => `/v1/recipients/${id}`,
  list: 'Recipients',
  fields: [
    { name: 'name', label: 'Name', required: true },
    { name: 'email', label: 'Email', type: 'email' },
  ],
  facts: {
    Email: ({ email }) => email ?? '–',
    Type: ({ type }) => humanize(type),
    Destination: ({ destination }) => <Id id={destination} label="destination" />,
    Currency: ({ currency }) => currency.toUpperCase(),
    Country: ({ country }) => country,
  },
  update: { may: 'updateRecipient', send: (id, changes) => sluice.recipients.update(id, changes) },
  removedAt: ({ archived_at }) => archived_at,
  removal: {
    verb: 'Archive',
    may: 'archiveRecipient',
    send: (id, options) => sluice.recipients.archive(id, options),
    effect:
      'The recipient gets no new payouts; accepted payouts continue. The recipient is retained for the books. Archiving cannot be undone; you would have to create a new recipient.',
    outcome: 'Archived. The recipient gets no new payouts.',
    removed: 'The recipient gets no new payouts. Accepted payouts continue.',
  },
  section: (id) => <PayoutsSection recipient_id={id} />,
  note: ({ kyc_status }) =>
    kyc_status === 'rejected' && (
      <StatusNote status="rejected">
        The verification was rejected, so payouts are refused. Start another verification, or approve this one
        by hand.
      </StatusNote>
    ),
  action: (row) => <Pay recipient={row} />,
}

export const RecipientPage = () => <PartyPage of={RECIPIENT} />

function Pay({ recipient }: { recipient: Recipient }) {
  const may_pay = useMay('createPayout')
  const deployed = useAreaState('payouts') === 'deployed'
  const { begin, props } = useDialogs<'pay'>()
  if (!may_pay || !deployed) return null
  return (
    <>
      <Button
        variant="filled"
        leftSection={<Banknote size={14} />}
        disabled={recipient.kyc_status === 'rejected'}
        onClick={() => begin('pay')}
      >
        New payout
      </Button>
      <NewPayout {...props('pay')} recipient={recipient} />
    </>
  )
}
