// One customer: who it is, and what there is of it. An example for other pages of one thing.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Trash2 } from 'lucide-react'
import { useState } from 'react'
import { ask } from '../api.ts'
import { usePathParam } from '../address.ts'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { notify } from '../kit/notices.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Failed } from '../kit/states.tsx'
import { Status } from '../kit/Status.tsx'
import { invalidate, useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import type { CustomerRow } from './customers.tsx'

export function CustomerPage() {
  const id = usePathParam('id')
  const { data: customer, error, refetch, dataUpdatedAt } = useAnswer<CustomerRow>(`/v1/customers/${id}`)
  const may_delete = useMay('deleteCustomer')
  const [deleting, setDeleting] = useState(false)
  const above = { to: '/customers', title: 'Customers' }
  if (error !== null && customer === undefined)
    return (
      <>
        <PageHeader title="Customer" above={above} />
        <Failed error={error} retry={refetch} />
      </>
    )
  const title = customer?.name ?? customer?.email ?? 'Customer'
  return (
    <>
      <PageHeader
        title={title}
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={
          may_delete &&
          customer?.deleted_at === null && (
            <Button leftSection={<Trash2 size={14} />} onClick={() => setDeleting(true)}>
              Delete customer
            </Button>
          )
        }
      />
      <div className="columns">
        <div>
          <section>
            <Facts
              facts={{
                Email: customer && (customer.email ?? '–'),
                Phone: customer && (customer.phone ?? '–'),
                'External id': customer && <span className="mono">{customer.external_id ?? '–'}</span>,
                Verification: customer && <Status status={customer.kyc_status} noun="kyc" />,
                Created: customer && <Instant at={customer.created_at} />,
                Updated: customer && <Instant at={customer.updated_at} />,
                Deleted: customer?.deleted_at ? <Instant at={customer.deleted_at} /> : null,
              }}
            />
          </section>
          <section className="section">
            <h2>Payments</h2>
            <p>
              <Link to="/payments" search={{ customer_id: id }}>
                Payments of this customer
              </Link>
            </p>
          </section>
        </div>
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={customer?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      <ConfirmDialog
        opened={deleting}
        onClose={() => setDeleting(false)}
        title="Delete this customer?"
        action="Delete customer"
        tone="bad"
        does={
          <>
            What is personal of {title} is erased here and in earlier events. Payments stay. This cannot be
            undone.
          </>
        }
        act={() => ask<unknown>('DELETE', `/v1/customers/${id}`)}
        onDone={() => {
          notify({ tone: 'good', text: 'Customer deleted.' })
          return invalidate('/v1/customers')
        }}
      />
    </>
  )
}
