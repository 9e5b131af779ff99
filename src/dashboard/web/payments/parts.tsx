// The refunds and disputes on the page of a payment.
import type { Dispute, Refund } from '#sdk/index.ts'
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { Instant } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'

export function PaymentRefunds({ refunds }: { refunds: Refund[] | undefined }) {
  if (refunds === undefined || refunds.length === 0) return null
  return (
    <ChildTable title="Refunds" path="/refunds" rows={refunds} last="Created" at={(row) => row.created_at} />
  )
}

export function PaymentDisputes({ disputes }: { disputes: Dispute[] | undefined }) {
  if (disputes === undefined || disputes.length === 0) return null
  return (
    <ChildTable title="Disputes" path="/disputes" rows={disputes} last="Opened" at={(row) => row.opened_at} />
  )
}

/** The number of rows that are shown initially. */
const INITIAL_COUNT = 5

type ChildRow = Pick<Refund, 'id' | 'amount_minor' | 'currency' | 'status' | 'reason'>

function ChildTable<T extends Omit<ChildRow, 'status'> & { status: string }>({
  title,
  path,
  rows,
  last,
  at,
}: {
  title: string
  path: '/refunds' | '/disputes'
  rows: T[]
  last: string
  at: (row: T) => string
}) {
  const [all, setAll] = useState(false)
  return (
    <section className="section">
      <h2>{title}</h2>
      <div className="table-frame">
        <table className="table" aria-label={title}>
          <thead>
            <tr>
              <th scope="col">Amount</th>
              <th scope="col">Status</th>
              <th scope="col">Reason</th>
              <th scope="col">{last}</th>
            </tr>
          </thead>
          <tbody>
            {(all ? rows : rows.slice(0, INITIAL_COUNT)).map((row) => (
              <tr key={row.id} data-link>
                <td>
                  <Link to={`${path}/${row.id}`} className="row-link" data-row>
                    <Money minor={row.amount_minor} currency={row.currency} />
                  </Link>
                </td>
                <td>
                  <Status status={row.status} />
                </td>
                <td>{row.reason === null ? '–' : humanize(row.reason)}</td>
                <td>
                  <Instant at={at(row)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > INITIAL_COUNT && (
        <Button variant="subtle" mt="xs" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show the last ${INITIAL_COUNT}` : `Show all ${rows.length} ${title.toLowerCase()}`}
        </Button>
      )}
    </section>
  )
}
