// One top-up: how much, from where, and what happened to it.
import type { TopUp } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { formatInstant, Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { formatMoney, Money } from '../kit/Money.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { Note } from '../parties/Note.tsx'
import { TimelineSection } from '../parties/timeline-items.tsx'
import { useAnswer } from '../queries.ts'

export function TopUpPage() {
  const id = usePathParam('id')
  const path = `/v1/wallet/top_ups/${id}` as const
  const {
    data: top_up,
    error,
    refetch,
    dataUpdatedAt,
  } = useAnswer<TopUp>(path, undefined, { every_ms: 5_000 })
  const above = { to: '/wallet/top-ups', title: 'Top-ups' }
  if (error !== null && top_up === undefined)
    return <FailedPage title="Top-up" above={above} error={error} retry={refetch} />
  return (
    <>
      <PageHeader
        title={
          top_up === undefined ? 'Top-up' : `Top-up of ${formatMoney(top_up.amount_minor, top_up.currency)}`
        }
        heading={
          top_up && (
            <span className="line">
              Top-up of <Money minor={top_up.amount_minor} currency={top_up.currency} />
              <Status status={top_up.status} pill />
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
      />
      <div className="columns">
        <div>
          {top_up && <Note status={top_up.status}>{sentence(top_up)}</Note>}
          <TimelineSection path={`${path}/timeline`} />
        </div>
        <section>
          <Facts
            facts={{
              Source:
                top_up &&
                (top_up.source === null ? 'Platform account' : <span className="mono">{top_up.source}</span>),
              Description: top_up && (top_up.description ?? '–'),
              Processor: top_up?.processor,
              Reference:
                top_up &&
                (top_up.processor_reference === null ? (
                  '–'
                ) : (
                  <Id id={top_up.processor_reference} label="reference" />
                )),
              Created: top_up && <Instant at={top_up.created_at} />,
              Succeeded: top_up && top_up.succeeded_at !== null && <Instant at={top_up.succeeded_at} />,
              Failed: top_up && top_up.failed_at !== null && <Instant at={top_up.failed_at} />,
            }}
          />
          <h2 className="side-title section">Metadata</h2>
          <Json value={top_up?.metadata ?? {}} label="metadata" />
        </section>
      </div>
    </>
  )
}

/** How it stands, and what comes next. */
function sentence({ status, amount_minor, currency, failure, succeeded_at }: TopUp): string {
  const money = formatMoney(amount_minor, currency)
  if (status === 'succeeded') return `${money} came into your balance.`
  if (status === 'canceled') return 'It was canceled at the processor before the money came.'
  if (status === 'pending')
    return `${money} is on its way, which can take days. It is available when it has come; nothing has to be done.`
  const why = failure === null ? '' : ` ${failure.message}`
  if (failure?.code === 'reversed' && succeeded_at !== null)
    return `${money} came ${formatInstant(succeeded_at)} and was taken back, so your balance fell by it.${why}`
  return `The money did not come.${why} To try again, top up again.`
}
