// One dispute: how it stands, what it took, and what happened.
import type { Dispute } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { usePathParam } from '../address.ts'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { Money } from '../kit/Money.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { disputeSaid, Outlook } from '../payments/outlook.tsx'
import { usePart, usePaymentStory } from '../payments/story.ts'
import { StoryTimeline } from '../payments/StoryTimeline.tsx'
import { moneyOf } from '../payments/words.ts'

export function DisputePage() {
  const id = usePathParam('id')
  const { data: dispute, error, refetch, dataUpdatedAt } = usePart<Dispute>(`/v1/disputes/${id}`)
  const { payment, story } = usePaymentStory(dispute?.payment_id)
  const above = { to: '/disputes', title: 'Disputes' }
  if (error !== null && dispute === undefined)
    return <FailedPage title="Dispute" above={above} error={error} retry={refetch} />
  const money = (minor: number) => dispute && <Money minor={minor} currency={dispute.currency} />
  return (
    <>
      <PageHeader
        title={dispute === undefined ? 'Dispute' : `Dispute of ${moneyOf(dispute)}`}
        heading={
          dispute && (
            <span className="line">
              Dispute of {money(dispute.amount_minor)}
              <span key={dispute.status} className="marked">
                <Status status={dispute.status} pill />
              </span>
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
        description="Opened by the buyer's bank; answered in the processor's dashboard."
      />
      {dispute && <Outlook said={disputeSaid(dispute, { with_link: false })} />}
      <div className="columns section">
        <section>
          <Facts
            facts={{
              Reason: dispute && (dispute.reason === null ? '–' : inWords(dispute.reason)),
              'Answer by': dispute && dispute.closed_at === null && (
                <Instant at={dispute.evidence_due_by} none="No answer is taken" />
              ),
              'Taken from the balance': dispute && money(dispute.amount_withdrawn_minor),
              'Came back': dispute && money(dispute.amount_reinstated_minor),
              Payment: dispute && (
                <Link to="/payments/$id" params={{ id: dispute.payment_id }} className="mono">
                  {dispute.payment_id}
                </Link>
              ),
              'Processor reference': dispute && (
                <Id id={dispute.processor_reference} label="processor reference" />
              ),
              'Dispute id': <Id id={id} label="dispute id" />,
              Opened: dispute && <Instant at={dispute.opened_at} />,
              Closed: dispute && dispute.closed_at !== null && <Instant at={dispute.closed_at} />,
            }}
          />
        </section>
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={dispute?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      <StoryTimeline
        payment={dispute && payment.data}
        story={story}
        part={{ id, reference: dispute?.processor_reference ?? null }}
      />
    </>
  )
}
