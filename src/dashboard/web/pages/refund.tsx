// One refund: how it stands, of what payment it is, and what happened.
import type { Payment, Refund } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { usePathParam } from '../address.ts'
import { Bone } from '../kit/Bone.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id, MaybeId } from '../kit/Id.tsx'
import { Instant, useNow } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { inWords } from '../kit/statuses.ts'
import { useIsPaused } from '../operations/held.ts'
import { jobSaid, Outlook, type Said } from '../payments/outlook.tsx'
import { usePart, usePaymentStory, type PaymentStory } from '../payments/story.ts'
import { StoryTimeline } from '../payments/StoryTimeline.tsx'
import { moneyOf } from '../payments/words.ts'
import { useSession } from '../session.tsx'

export function RefundPage() {
  const id = usePathParam('id')
  const query = usePart<Refund>(`/v1/refunds/${id}`)
  const { payment, story } = usePaymentStory(query.data?.payment_id)
  return (
    <RowPage
      query={query}
      id={id}
      above={{ to: '/refunds', title: 'Refunds' }}
      word="Refund"
      title={(refund) => `Refund of ${moneyOf(refund)}`}
      heading={({ amount_minor, currency }) => (
        <>
          Refund of <Money minor={amount_minor} currency={currency} />
        </>
      )}
      status={({ status }) => ({ status })}
      description={
        payment.data === undefined ? (
          <Bone width={240} />
        ) : (
          <>
            Of the payment of {moneyOf(payment.data)}
            {payment.data.description !== null && `: ${payment.data.description}`}
          </>
        )
      }
      head={(refund) => <RefundOutlook refund={refund} payment={payment.data} story={story.data} />}
      main={
        <Facts
          of={query.data}
          facts={{
            Payment: ({ payment_id }) => (
              <Link to="/payments/$id" params={{ id: payment_id }} className="mono">
                {payment_id}
              </Link>
            ),
            Reason: ({ reason }) => (reason === null ? '–' : inWords(reason)),
            Origin: ({ imported }) => imported && "Made in the processor's dashboard",
            'Processor reference': ({ processor_reference }) => (
              <MaybeId id={processor_reference} label="processor reference" />
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
      <StoryTimeline
        payment={query.data && payment.data}
        story={story}
        part={query.data && { id, reference: query.data.processor_reference, since: query.data.created_at }}
      />
    </RowPage>
  )
}

function RefundOutlook({
  refund,
  payment,
  story,
}: {
  refund: Refund
  payment: Payment | undefined
  story: PaymentStory | undefined
}) {
  const now = useNow()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  const amount = moneyOf(refund)
  const job = story?.jobs.find(({ refund_id, run_at }) => refund_id === refund.id && run_at !== null)
  // Once a notification has told how it ended, its job only has to see that.
  if (refund.status === 'pending' && job !== undefined && story !== undefined && payment !== undefined)
    return <Outlook said={[jobSaid({ payment, story, job, now, is_operator, paused })]} />
  const said: Record<Refund['status'], Omit<Said, 'key'>> = {
    pending: {
      tone: 'going',
      words: `The refund of ${amount} is under way. The processor will report the outcome. You need not do anything.`,
    },
    succeeded: {
      tone: 'idle',
      words:
        now - Date.parse(refund.created_at) > 30 * 86_400_000
          ? `${amount} went back to the buyer. Nothing more happens.`
          : `The refund of ${amount} succeeded. The buyer sees it in 5 to 10 days. If their bank sends it back within 30 days, this refund fails and the money is yours again.`,
    },
    failed: {
      tone: 'bad',
      words: `${refund.failure?.message ?? 'The refund failed.'} ${amount} is still yours. Refund the payment again, or pay the buyer another way.`,
    },
  }
  return <Outlook said={[{ key: refund.status, ...said[refund.status] }]} />
}
