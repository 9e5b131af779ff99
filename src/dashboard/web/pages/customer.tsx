// One customer: who it is, its payments and its verifications.
import { Button } from '@mantine/core'
import { Pencil, Trash2 } from 'lucide-react'
import { useState } from 'react'
import type { Customer } from '#sdk/index.ts'
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
import { customerName } from '../parties/PartyName.tsx'
import { PaymentsSection } from '../parties/PaymentsSection.tsx'
import { VerificationSection } from '../parties/VerificationSection.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useAreaState, useMay } from '../session.tsx'

const FIELDS: EditField[] = [
  { name: 'name', label: 'Name' },
  { name: 'email', label: 'Email' },
  { name: 'phone', label: 'Phone', type: 'tel' },
  { name: 'external_id', label: 'External id' },
]

export function CustomerPage() {
  const id = usePathParam('id')
  const { data: customer, error, refetch, dataUpdatedAt } = useAnswer<Customer>(`/v1/customers/${id}`)
  const may_delete = useMay('deleteCustomer')
  const payments = useAreaState('payments') === 'deployed'
  const may_edit = useMay('updateCustomer')
  const [open, setOpen] = useState<'edit' | 'delete'>()
  const close = () => setOpen(undefined)
  const above = { to: '/customers', title: 'Customers' }
  if (error !== null && customer === undefined)
    return <FailedPage title="Customer" above={above} error={error} retry={refetch} />
  const gone = customer !== undefined && customer.deleted_at !== null
  const title = customer === undefined ? 'Customer' : gone ? 'Deleted customer' : customerName(customer)
  return (
    <>
      <PageHeader
        title={title}
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={
          customer !== undefined &&
          !gone && (
            <>
              {may_edit && (
                <Button leftSection={<Pencil size={14} />} onClick={() => setOpen('edit')}>
                  Edit customer
                </Button>
              )}
              {may_delete && (
                <Button leftSection={<Trash2 size={14} />} onClick={() => setOpen('delete')}>
                  Delete customer
                </Button>
              )}
            </>
          )
        }
      />
      <div className="columns">
        <div>
          {gone && (
            <Note status="deleted">
              Deleted <Instant at={customer.deleted_at} />. What was personal is erased; payments and the
              books stay.
            </Note>
          )}
          <section>
            <Facts
              facts={{
                Email: customer && (customer.email ?? '–'),
                Phone: customer && (customer.phone ?? '–'),
                'External id': customer && <span className="mono">{customer.external_id ?? '–'}</span>,
                Verification: customer && <Status status={customer.kyc_status} noun="kyc" />,
                Created: customer && <Instant at={customer.created_at} />,
                Updated: customer && <Instant at={customer.updated_at} />,
              }}
            />
          </section>
          {payments && <PaymentsSection by="customer_id" id={id} />}
          <VerificationSection type="customer" id={id} name={title} gone={gone} />
        </div>
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={customer?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      {customer !== undefined && (
        <EditDialog
          opened={open === 'edit'}
          onClose={close}
          title={`Edit ${title}`}
          action="Save customer"
          fields={FIELDS}
          row={customer}
          send={(changes) => sluice.customers.update(id, changes)}
          onDone={() => invalidate('/v1/customers')}
        />
      )}
      <ConfirmDialog
        opened={open === 'delete'}
        onClose={close}
        title={`Delete ${title}?`}
        action="Delete customer"
        tone="bad"
        does="Name, email, phone and metadata are erased, here and in earlier events. Payments stay, and so does the id, for the books. An open verification is given up. This cannot be undone."
        act={(idempotency_key) => acted(sluice.customers.delete(id, { idempotency_key }))}
        onDone={() => invalidate('/v1/customers', '/v1/compliance')}
        outcome={(result) => <ActedOutcome of={result}>Deleted. What was personal is erased.</ActedOutcome>}
      />
    </>
  )
}
