// One refund: how it stands, of what payment it is, and what happened.
import type { Payment, Refund } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { usePathParam } from '../address.ts'
import { Bone } from '../kit/Bone.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant, useNow } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { Money } from '../kit/Money.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { jobSaid, Outlook, type Said } from '../payments/outlook.tsx'
import { usePart, usePaymentStory, type PaymentStory } from '../payments/story.ts'
import { StoryTimeline } from '../payments/StoryTimeline.tsx'
import { moneyOf } from '../payments/words.ts'
import { useSession } from '../session.tsx'

export function RefundPage() {
  const id = usePathParam('id')
  const { data: refund, error, refetch, dataUpdatedAt } = usePart<Refund>(`/v1/refunds/${id}`)
  const { payment, story } = usePaymentStory(refund?.payment_id)
  const above = { to: '/refunds', title: 'Refunds' }
  if (error !== null && refund === undefined)
    return <FailedPage title="Refund" above={above} error={error} retry={refetch} />
  return (
    <>
      <PageHeader
        title={refund === undefined ? 'Refund' : `Refund of ${moneyOf(refund)}`}
        heading={
          refund && (
            <span className="line">
              Refund of <Money minor={refund.amount_minor} currency={refund.currency} />
              <span key={refund.status} className="marked">
                <Status status={refund.status} pill />
              </span>
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
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
      />
      {refund && <RefundOutlook refund={refund} payment={payment.data} story={story.data} />}
      <div className="columns section">
        <section>
          <Facts
            facts={{
              Payment: refund && (
                <Link to="/payments/$id" params={{ id: refund.payment_id }} className="mono">
                  {refund.payment_id}
                </Link>
              ),
              Reason: refund && (refund.reason === null ? '–' : inWords(refund.reason)),
              Origin: refund && refund.imported && "Made in the processor's dashboard",
              'Processor reference':
                refund &&
                (refund.processor_reference === null ? (
                  '–'
                ) : (
                  <Id id={refund.processor_reference} label="processor reference" />
                )),
              'Refund id': <Id id={id} label="refund id" />,
              'Idempotency key': refund && refund.idempotency_key !== null && (
                <Id id={refund.idempotency_key} label="idempotency key" />
              ),
              Created: refund && <Instant at={refund.created_at} />,
              Updated: refund && <Instant at={refund.updated_at} />,
            }}
          />
        </section>
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={refund?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      <StoryTimeline
        payment={refund && payment.data}
        story={story}
        part={{ id, reference: refund?.processor_reference ?? null }}
      />
    </>
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
  const amount = moneyOf(refund)
  const job = story?.jobs.find(({ refund_id, run_at }) => refund_id === refund.id && run_at !== null)
  if (job !== undefined && story !== undefined && payment !== undefined)
    return <Outlook said={[jobSaid({ payment, story, job, now, is_operator })]} />
  const said: Record<Refund['status'], Omit<Said, 'key'>> = {
    pending: {
      tone: 'going',
      words: `${amount} is on its way back. The processor tells when it has arrived; you need not do anything.`,
    },
    succeeded: {
      tone: 'idle',
      words:
        now - Date.parse(refund.created_at) > 30 * 86_400_000
          ? `${amount} went back to the buyer. Nothing more happens.`
          : `${amount} is on its way to the buyer, who sees it in 5 to 10 days. If their bank sends it back within 30 days, this refund fails and the money is yours again.`,
    },
    failed: {
      tone: 'bad',
      words: `${refund.failure?.message ?? 'The refund failed.'} ${amount} is still yours. Refund the payment again, or pay the buyer in another way.`,
    },
  }
  return <Outlook said={[{ key: refund.status, ...said[refund.status] }]} />
}
