// One top-up: its amount, source, status and timeline.
import type { TopUp } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { Facts } from '../kit/Facts.tsx'
import { OptionalId } from '../kit/Id.tsx'
import { formatInstant, Instant } from '../kit/Instant.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { Money } from '../kit/Money.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { StatusNote } from '../parties/StatusNote.tsx'
import { useAnswer } from '../queries.ts'
import { RowTimeline } from '../timeline/TimelineSection.tsx'
import { TOP_UP_TEXTS } from '../timeline/row-texts.ts'

export function TopUpPage() {
  const id = usePathParam('id')
  const path = `/v1/wallet/top_ups/${id}` as const
  const query = useAnswer<TopUp>(path, undefined, { interval_ms: 5_000 })
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/wallet/top-ups', title: 'Top-ups' }}
      label="Top-up"
      title={({ amount_minor, currency }) => `Top-up of ${formatMoney(amount_minor, currency)}`}
      heading={({ amount_minor, currency }) => (
        <>
          Top-up of <Money minor={amount_minor} currency={currency} />
        </>
      )}
      status={({ status }) => ({ status })}
      main={
        <>
          {query.data && <StatusNote status={query.data.status}>{summaryOf(query.data)}</StatusNote>}
          <RowTimeline path={`${path}/timeline`} id={id} at={query.data?.processor} texts={TOP_UP_TEXTS} />
        </>
      }
      side={
        <Facts
          of={query.data}
          facts={{
            Source: ({ source }) =>
              source === null ? 'Platform account' : <span className="mono">{source}</span>,
            Description: ({ description }) => description ?? '–',
            Processor: ({ processor }) => processor,
            Reference: ({ processor_reference }) => <OptionalId id={processor_reference} label="reference" />,
            Created: ({ created_at }) => <Instant at={created_at} />,
            Succeeded: ({ succeeded_at }) => succeeded_at && <Instant at={succeeded_at} />,
            Failed: ({ failed_at }) => failed_at && <Instant at={failed_at} />,
          }}
        />
      }
    />
  )
}

/** The status and the next step. */
function summaryOf({ status, amount_minor, currency, failure, succeeded_at }: TopUp): string {
  const money = formatMoney(amount_minor, currency)
  if (status === 'succeeded') return `${money} was added to your balance.`
  if (status === 'canceled') return 'The top-up was canceled at the processor before the money arrived.'
  if (status === 'pending')
    return `${money} is in transit, which can take days. You can use it when it arrives. You need not do anything.`
  const failure_text = failure === null ? '' : ` ${failure.message}`
  if (failure?.code === 'reversed' && succeeded_at !== null)
    return `${money} arrived ${formatInstant(succeeded_at)} and was reversed, so your balance fell by that amount.${failure_text}`
  return `The money did not arrive.${failure_text} To try again, create another top-up.`
}
