// One recipient: where its money goes, its payouts and its verifications.
import { Button } from '@mantine/core'
import { Archive, Banknote, Pencil } from 'lucide-react'
import { useState } from 'react'
import type { Recipient } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { sluice } from '../api.ts'
import { acted, ActedOutcome } from '../kit/Acted.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { EditDialog, type EditField } from '../parties/EditDialog.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { Note } from '../parties/Note.tsx'
import { VerificationSection } from '../parties/VerificationSection.tsx'
import { NewPayout } from '../payouts/NewPayout.tsx'
import { PayoutsSection } from '../payouts/PayoutsSection.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useAreaState, useMay } from '../session.tsx'

const FIELDS: EditField[] = [
  { name: 'name', label: 'Name', required: true },
  { name: 'email', label: 'Email', type: 'email' },
]

export function RecipientPage() {
  const id = usePathParam('id')
  const { data: recipient, error, refetch, dataUpdatedAt } = useAnswer<Recipient>(`/v1/recipients/${id}`)
  const may_archive = useMay('archiveRecipient')
  const may_edit = useMay('updateRecipient')
  const may_pay = useMay('createPayout')
  const payouts = useAreaState('payouts') === 'deployed'
  const [open, setOpen] = useState<'edit' | 'archive' | 'pay'>()
  const close = () => setOpen(undefined)
  const above = { to: '/recipients', title: 'Recipients' }
  if (error !== null && recipient === undefined)
    return <FailedPage title="Recipient" above={above} error={error} retry={refetch} />
  const gone = recipient !== undefined && recipient.archived_at !== null
  const rejected = recipient?.kyc_status === 'rejected'
  const title = recipient?.name ?? 'Recipient'
  return (
    <>
      <PageHeader
        title={title}
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={
          recipient !== undefined &&
          !gone && (
            <>
              {may_edit && (
                <Button leftSection={<Pencil size={14} />} onClick={() => setOpen('edit')}>
                  Edit recipient
                </Button>
              )}
              {may_archive && (
                <Button leftSection={<Archive size={14} />} onClick={() => setOpen('archive')}>
                  Archive recipient
                </Button>
              )}
              {may_pay && payouts && (
                <Button
                  variant="filled"
                  leftSection={<Banknote size={14} />}
                  disabled={rejected}
                  onClick={() => setOpen('pay')}
                >
                  New payout
                </Button>
              )}
            </>
          )
        }
      />
      <div className="columns">
        <div>
          {gone && (
            <Note status="archived">
              Archived <Instant at={recipient.archived_at} />. No new payout goes there; those that were
              accepted before go on.
            </Note>
          )}
          {!gone && rejected && (
            <Note status="rejected">
              The verification was rejected, so no payout is accepted. Start another one, or approve by hand.
            </Note>
          )}
          <section>
            <Facts
              facts={{
                Email: recipient && (recipient.email ?? '–'),
                Type: recipient && inWords(recipient.type),
                Destination: recipient && <Id id={recipient.destination} label="destination" />,
                Currency: recipient?.currency.toUpperCase(),
                Country: recipient?.country,
                Verification: recipient && <Status status={recipient.kyc_status} noun="kyc" />,
                Created: recipient && <Instant at={recipient.created_at} />,
                Updated: recipient && <Instant at={recipient.updated_at} />,
              }}
            />
          </section>
          {payouts && <PayoutsSection recipient_id={id} />}
          <VerificationSection type="recipient" id={id} name={title} gone={gone} />
        </div>
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={recipient?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      {recipient !== undefined && (
        <>
          <EditDialog
            opened={open === 'edit'}
            onClose={close}
            title={`Edit ${title}`}
            action="Save recipient"
            fields={FIELDS}
            row={recipient}
            send={(changes) => sluice.recipients.update(id, changes)}
            onDone={() => invalidate('/v1/recipients')}
          />
          <NewPayout opened={open === 'pay'} onClose={close} recipient={recipient} />
        </>
      )}
      <ConfirmDialog
        opened={open === 'archive'}
        onClose={close}
        title={`Archive ${title}?`}
        action="Archive recipient"
        tone="bad"
        does="No new payout goes there; those that were accepted before go on. The recipient stays for the books. Archiving cannot be undone: create another one instead."
        act={(idempotency_key) => acted(sluice.recipients.archive(id, { idempotency_key }))}
        onDone={() => invalidate('/v1/recipients', '/v1/compliance')}
        outcome={(result) => <ActedOutcome of={result}>Archived. No new payout goes there.</ActedOutcome>}
      />
    </>
  )
}
