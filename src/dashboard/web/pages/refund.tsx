// One refund: its status, payment and timeline.
import type { Payment, Refund } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { usePathParam } from '../address.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id, OptionalId } from '../kit/Id.tsx'
import { Instant, useNow } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { humanize } from '../kit/statuses.ts'
import { useIsPaused } from '../operations/paused.ts'
import { jobOutlook, Outlook, type OutlookLine } from '../payments/outlook.tsx'
import { useTimelineChild, usePaymentTimeline, type PaymentTimelineData } from '../payments/timeline.ts'
import { PaymentTimeline } from '../payments/PaymentTimeline.tsx'
import { moneyOf } from '../payments/texts.ts'
import { useClockNow } from '../sandbox/clock.ts'
import { useSession } from '../session.tsx'

export function RefundPage() {
  const id = usePathParam('id')
  const query = useTimelineChild<Refund>(`/v1/refunds/${id}`)
  const { payment, timeline } = usePaymentTimeline(query.data?.payment_id)
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/refunds', title: 'Refunds' }}
      label="Refund"
      title={(refund) => `Refund of ${moneyOf(refund)}`}
      heading={({ amount_minor, currency }) => (
        <>
          Refund of <Money minor={amount_minor} currency={currency} />
        </>
      )}
      status={({ status }) => ({ status })}
      description={
        payment.data === undefined ? (
          <Skeleton width={240} />
        ) : (
          <>
            Of the payment of {moneyOf(payment.data)}
            {payment.data.description !== null && `: ${payment.data.description}`}
          </>
        )
      }
      head={(refund) => <RefundOutlook refund={refund} payment={payment.data} timeline={timeline.data} />}
      main={
        <Facts
          of={query.data}
          facts={{
            Payment: ({ payment_id }) => (
              <Link to="/payments/$id" params={{ id: payment_id }} className="mono">
                {payment_id}
              </Link>
            ),
            Reason: ({ reason }) => (reason === null ? '–' : humanize(reason)),
            Origin: ({ imported }) => imported && "Made in the processor's dashboard",
            'Processor reference': ({ processor_reference }) => (
              <OptionalId id={processor_reference} label="processor reference" />
            ),
            'Refund id': <Id id={id} label="refund id" />,
            'Idempotency key': ({ idempotency_key }) =>
              idempotency_key && <Id id={idempotency_key} label="idempotency key" />,
            Created: ({ created_at }) => <Instant at={created_at} />,
            Updated: ({ updated_at }) => <Instant at={updated_at} />,
          }}
        />
      }
    >
      <PaymentTimeline
        payment={query.data && payment.data}
        timeline={timeline}
        child={query.data && { id, reference: query.data.processor_reference, since: query.data.created_at }}
      />
    </RowPage>
  )
}

function RefundOutlook({
  refund,
  payment,
  timeline,
}: {
  refund: Refund
  payment: Payment | undefined
  timeline: PaymentTimelineData | undefined
}) {
  const now = useNow()
  const clock_now = useClockNow()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  const amount = moneyOf(refund)
  const job = timeline?.jobs.find(({ refund_id, run_at }) => refund_id === refund.id && run_at !== null)
  // A notification may settle the refund before its job does. Then the job's state does not matter.
  if (refund.status === 'pending' && job !== undefined && timeline !== undefined && payment !== undefined)
    return <Outlook lines={[jobOutlook({ payment, timeline, job, now: clock_now, is_operator, paused })]} />
  const lines: Record<Refund['status'], Omit<OutlookLine, 'key'>> = {
    pending: {
      tone: 'pending',
      text: `The refund of ${amount} is in progress. The processor will report the outcome. You need not do anything.`,
    },
    succeeded: {
      tone: 'idle',
      text:
        now - Date.parse(refund.created_at) > 30 * 86_400_000
          ? `${amount} was refunded to the buyer. The refund is final.`
          : `The refund of ${amount} succeeded. The buyer sees it in 5 to 10 days. If their bank sends it back within 30 days, this refund fails and the money is yours again.`,
    },
    failed: {
      tone: 'bad',
      text: `${refund.failure?.message ?? 'The refund failed.'} ${amount} is still yours. Refund the payment again, or pay the buyer another way.`,
    },
  }
  return <Outlook lines={[{ key: refund.status, ...lines[refund.status] }]} />
}
