// One dispute: its status, amounts and timeline.
import type { Dispute } from '#sdk/index.ts'
import { Link } from '@tanstack/react-router'
import { usePathParam } from '../address.ts'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { ProcessorDeadline } from '../kit/Deadline.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { humanize } from '../kit/statuses.ts'
import { disputeOutlook, Outlook } from '../payments/outlook.tsx'
import { useTimelineChild, usePaymentTimeline } from '../payments/timeline.ts'
import { PaymentTimeline } from '../payments/PaymentTimeline.tsx'
import { moneyOf } from '../payments/texts.ts'
import { useIsInSandbox } from '../sandbox/acts.ts'

export function DisputePage() {
  const id = usePathParam('id')
  const query = useTimelineChild<Dispute>(`/v1/disputes/${id}`)
  const in_sandbox = useIsInSandbox()
  const { payment, timeline } = usePaymentTimeline(query.data?.payment_id)
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/disputes', title: 'Disputes' }}
      label="Dispute"
      title={(dispute) => `Dispute of ${moneyOf(dispute)}`}
      heading={({ amount_minor, currency }) => (
        <>
          Dispute of <Money minor={amount_minor} currency={currency} />
        </>
      )}
      status={({ status }) => ({ status })}
      description={`Opened by the buyer's bank. ${in_sandbox ? 'The sandbox takes no response.' : "Respond in the processor's dashboard."}`}
      head={(dispute) => <Outlook lines={disputeOutlook(dispute, { in_sandbox, with_link: false })} />}
      main={
        <Facts
          of={query.data}
          facts={{
            Reason: ({ reason }) => (reason === null ? '–' : humanize(reason)),
            'Respond by': ({ closed_at, evidence_due_by }) =>
              closed_at === null && <ProcessorDeadline at={evidence_due_by} none="No response is accepted" />,
            Withdrawn: ({ amount_withdrawn_minor, currency }) => (
              <Money minor={amount_withdrawn_minor} currency={currency} />
            ),
            Reinstated: ({ amount_reinstated_minor, currency }) => (
              <Money minor={amount_reinstated_minor} currency={currency} />
            ),
            Payment: ({ payment_id }) => (
              <Link to="/payments/$id" params={{ id: payment_id }} className="mono">
                {payment_id}
              </Link>
            ),
            'Processor reference': ({ processor_reference }) => (
              <Id id={processor_reference} label="processor reference" />
            ),
            'Dispute id': <Id id={id} label="dispute id" />,
            Opened: ({ opened_at }) => <Instant at={opened_at} />,
            Closed: ({ closed_at }) => closed_at && <Instant at={closed_at} />,
          }}
        />
      }
    >
      <PaymentTimeline
        payment={query.data && payment.data}
        timeline={timeline}
        child={query.data && { id, reference: query.data.processor_reference, since: query.data.opened_at }}
      />
    </RowPage>
  )
}
