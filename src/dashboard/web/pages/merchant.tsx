// One merchant: who it is, its payments and its verifications.
import { Button } from '@mantine/core'
import { Archive, Pencil } from 'lucide-react'
import { useState } from 'react'
import type { Merchant } from '#sdk/index.ts'
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
import { EditDialog, type EditField } from '../parties/EditDialog.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { Note } from '../parties/Note.tsx'
import { PaymentsSection } from '../parties/PaymentsSection.tsx'
import { VerificationSection } from '../parties/VerificationSection.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useAreaState, useMay } from '../session.tsx'

const FIELDS: EditField[] = [
  { name: 'legal_name', label: 'Legal name', required: true },
  { name: 'display_name', label: 'Display name', required: true },
  { name: 'country', label: 'Country', required: true },
  { name: 'support_email', label: 'Support email', required: true, type: 'email' },
  { name: 'url', label: 'Site', type: 'url' },
]

export function MerchantPage() {
  const id = usePathParam('id')
  const { data: merchant, error, refetch, dataUpdatedAt } = useAnswer<Merchant>(`/v1/merchants/${id}`)
  const may_archive = useMay('archiveMerchant')
  const payments = useAreaState('payments') === 'deployed'
  const may_edit = useMay('updateMerchant')
  const [open, setOpen] = useState<'edit' | 'archive'>()
  const close = () => setOpen(undefined)
  const above = { to: '/merchants', title: 'Merchants' }
  if (error !== null && merchant === undefined)
    return <FailedPage title="Merchant" above={above} error={error} retry={refetch} />
  const gone = merchant !== undefined && merchant.archived_at !== null
  const title = merchant?.display_name ?? 'Merchant'
  return (
    <>
      <PageHeader
        title={title}
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={
          merchant !== undefined &&
          !gone && (
            <>
              {may_edit && (
                <Button leftSection={<Pencil size={14} />} onClick={() => setOpen('edit')}>
                  Edit merchant
                </Button>
              )}
              {may_archive && (
                <Button leftSection={<Archive size={14} />} onClick={() => setOpen('archive')}>
                  Archive merchant
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
              Archived <Instant at={merchant.archived_at} />. No new payment can name it; those that do
              already are captured, canceled and refunded as before.
            </Note>
          )}
          <section>
            <Facts
              facts={{
                'Legal name': merchant?.legal_name,
                Country: merchant?.country,
                'Support email': merchant?.support_email,
                Site: merchant && (merchant.url ?? '–'),
                Verification: merchant && <Status status={merchant.kyc_status} noun="kyc" />,
                Created: merchant && <Instant at={merchant.created_at} />,
                Updated: merchant && <Instant at={merchant.updated_at} />,
              }}
            />
          </section>
          {payments && <PaymentsSection by="merchant_id" id={id} />}
          <VerificationSection type="merchant" id={id} name={title} gone={gone} />
        </div>
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={merchant?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      {merchant !== undefined && (
        <EditDialog
          opened={open === 'edit'}
          onClose={close}
          title={`Edit ${title}`}
          action="Save merchant"
          fields={FIELDS}
          row={merchant}
          send={(changes) => sluice.merchants.update(id, changes)}
          onDone={() => invalidate('/v1/merchants')}
        />
      )}
      <ConfirmDialog
        opened={open === 'archive'}
        onClose={close}
        title={`Archive ${title}?`}
        action="Archive merchant"
        tone="bad"
        does="No new payment can name it; those that do already are captured, canceled and refunded as before. Archiving cannot be undone: create another one instead."
        act={(idempotency_key) => acted(sluice.merchants.archive(id, { idempotency_key }))}
        onDone={() => invalidate('/v1/merchants', '/v1/compliance')}
        outcome={(result) => <ActedOutcome of={result}>Archived. No new payment can name it.</ActedOutcome>}
      />
    </>
  )
}
