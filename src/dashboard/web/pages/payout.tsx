// One payout: how much, to whom, what can be done now, and what happened to it.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Ban, CircleX } from 'lucide-react'
import { useState } from 'react'
import type { Payout } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { formatMoney, Money } from '../kit/Money.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { Note } from '../parties/Note.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { TimelineSection } from '../parties/timeline-items.tsx'
import { CancelPayoutDialog, FailPayoutDialog } from '../payouts/dialogs.tsx'
import { useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'

export function PayoutPage() {
  const id = usePathParam('id')
  const path = `/v1/payouts/${id}` as const
  const {
    data: payout,
    error,
    refetch,
    dataUpdatedAt,
  } = useAnswer<Payout>(path, undefined, { every_ms: 5_000 })
  const may_cancel = useMay('cancelPayout')
  const may_fail = useMay('failPayout')
  const [open, setOpen] = useState<'cancel' | 'fail'>()
  const close = () => setOpen(undefined)
  const above = { to: '/payouts', title: 'Payouts' }
  if (error !== null && payout === undefined)
    return <FailedPage title="Payout" above={above} error={error} retry={refetch} />
  const on_its_way = payout?.status === 'pending' || payout?.status === 'processing'
  return (
    <>
      <PageHeader
        title={
          payout === undefined ? 'Payout' : `Payout of ${formatMoney(payout.amount_minor, payout.currency)}`
        }
        heading={
          payout && (
            <span className="line">
              Payout of <Money minor={payout.amount_minor} currency={payout.currency} />
              <Status status={payout.status} pill />
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={
          on_its_way && (
            <>
              {may_fail && (
                <Button leftSection={<CircleX size={14} />} onClick={() => setOpen('fail')}>
                  Mark as failed
                </Button>
              )}
              {may_cancel && (
                <Button leftSection={<Ban size={14} />} onClick={() => setOpen('cancel')}>
                  Cancel payout
                </Button>
              )}
            </>
          )
        }
      />
      <div className="columns">
        <div>
          {payout && (
            <Note status={payout.status}>
              <Sentence payout={payout} />
            </Note>
          )}
          <TimelineSection path={`${path}/timeline`} />
        </div>
        <section>
          <Facts
            facts={{
              Recipient: payout && <PartyName type="recipient" id={payout.recipient_id} link />,
              Description: payout && (payout.description ?? '–'),
              Processor: payout?.processor,
              Reference:
                payout &&
                (payout.processor_reference === null ? (
                  '–'
                ) : (
                  <Id id={payout.processor_reference} label="reference" />
                )),
              'Expected on': payout && payout.arrival_date !== null && dayText(payout.arrival_date),
              Created: payout && <Instant at={payout.created_at} />,
              Processing: payout && payout.processing_at !== null && <Instant at={payout.processing_at} />,
              Paid: payout && payout.paid_at !== null && <Instant at={payout.paid_at} />,
              Failed: payout && payout.failed_at !== null && <Instant at={payout.failed_at} />,
              Canceled: payout && payout.canceled_at !== null && <Instant at={payout.canceled_at} />,
              Transactions: (
                <Link to="/wallet" search={{ subject_id: id }}>
                  In the wallet
                </Link>
              ),
            }}
          />
          <h2 className="side-title section">Metadata</h2>
          <Json value={payout?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      {payout !== undefined && (
        <>
          <CancelPayoutDialog opened={open === 'cancel'} onClose={close} payout={payout} />
          <FailPayoutDialog opened={open === 'fail'} onClose={close} payout={payout} />
        </>
      )}
    </>
  )
}

/** How it stands, what comes next, and what can be done. */
function Sentence({ payout }: { payout: Payout }) {
  const { status, amount_minor, currency, arrival_date, failure, paid_at } = payout
  const money = formatMoney(amount_minor, currency)
  const arrival = arrival_date === null ? '' : ` It is expected to arrive on ${dayText(arrival_date)}.`
  switch (status) {
    case 'pending':
      return <>The processor has not taken it yet. {money} is reserved, and it goes on by itself.</>
    case 'processing':
      return (
        <>
          It is on its way, and {money} is reserved.{arrival}
        </>
      )
    case 'paid':
      return (
        <>It was paid, and your balance is smaller by {money}. It can still come back; then it is failed.</>
      )
    case 'canceled':
      return <>It was stopped in time. {money} is available again.</>
    default:
      return (
        <>
          {failure?.manual === true
            ? 'Marked as failed by hand'
            : paid_at === null
              ? 'It failed'
              : 'It came back'}
          {failure !== null && `: ${failure.message}`}{' '}
          {paid_at === null ? 'Nothing is reserved.' : 'The money is in your balance again.'} To try again,
          create another payout.
        </>
      )
  }
}

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
const dayText = (day: string): string => DAY.format(new Date(day))
