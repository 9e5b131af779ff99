// One payout: its amount, recipient, status, acts and timeline.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { Ban, CircleX, ShieldAlert } from 'lucide-react'
import type { Payout } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { Facts } from '../kit/Facts.tsx'
import { OptionalId } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { Money } from '../kit/Money.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { ForceFailDialog } from '../operations/proposals.tsx'
import { StatusNote } from '../parties/StatusNote.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { CancelPayoutDialog, FailPayoutDialog } from '../payouts/dialogs.tsx'
import { useAnswer } from '../queries.ts'
import { FailPayoutInSandboxDialog } from '../sandbox/dialogs.tsx'
import { isFailable } from '../sandbox/acts.ts'
import { SandboxButton } from '../sandbox/SandboxButton.tsx'
import { useMay, useSession } from '../session.tsx'
import { RowTimeline } from '../timeline/TimelineSection.tsx'
import { PAYOUT_TEXTS } from '../timeline/row-texts.ts'

type PayoutAct = 'cancel' | 'fail' | 'force' | 'fail_in_sandbox'

export function PayoutPage() {
  const id = usePathParam('id')
  const path = `/v1/payouts/${id}` as const
  const query = useAnswer<Payout>(path, undefined, { interval_ms: 5_000 })
  const { begin, props } = useDialogs<PayoutAct>()
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/payouts', title: 'Payouts' }}
      label="Payout"
      title={({ amount_minor, currency }) => `Payout of ${formatMoney(amount_minor, currency)}`}
      heading={({ amount_minor, currency }) => (
        <>
          Payout of <Money minor={amount_minor} currency={currency} />
        </>
      )}
      status={({ status }) => ({ status })}
      actions={(payout) => (
        <>
          <SandboxButton
            label="Fail payout"
            allowed={isFailable(payout)}
            begin={() => begin('fail_in_sandbox')}
          />
          {(payout.status === 'pending' || payout.status === 'processing') && (
            <Acts payout={payout} begin={begin} />
          )}
        </>
      )}
      main={
        <>
          {query.data && (
            <StatusNote status={query.data.status}>
              <PayoutSummary payout={query.data} />
            </StatusNote>
          )}
          <RowTimeline path={`${path}/timeline`} id={id} at={query.data?.processor} texts={PAYOUT_TEXTS} />
        </>
      }
      side={<PayoutFacts of={query.data} id={id} />}
    >
      {(payout) => (
        <>
          <CancelPayoutDialog {...props('cancel')} payout={payout} />
          <FailPayoutDialog {...props('fail')} payout={payout} />
          <ForceFailDialog {...props('force')} payout={payout} />
          <FailPayoutInSandboxDialog {...props('fail_in_sandbox')} payout={payout} />
        </>
      )}
    </RowPage>
  )
}

/** The acts on an open payout. */
function Acts({ payout: { fail_requested_at }, begin }: { payout: Payout; begin: (act: PayoutAct) => void }) {
  const may_cancel = useMay('cancelPayout')
  const may_fail = useMay('failPayout')
  const { is_operator } = useSession()
  return (
    <>
      {is_operator && (
        <Button leftSection={<ShieldAlert size={14} />} onClick={() => begin('force')}>
          Force failure
        </Button>
      )}
      {may_fail && fail_requested_at === null && (
        <Button leftSection={<CircleX size={14} />} onClick={() => begin('fail')}>
          Mark as failed
        </Button>
      )}
      {may_cancel && fail_requested_at === null && (
        <Button leftSection={<Ban size={14} />} onClick={() => begin('cancel')}>
          Cancel payout
        </Button>
      )}
    </>
  )
}

function PayoutFacts({ of, id }: { of: Payout | undefined; id: string }) {
  return (
    <Facts
      of={of}
      facts={{
        Recipient: ({ recipient_id }) => <PartyName type="recipient" id={recipient_id} link />,
        Description: ({ description }) => description ?? '–',
        Processor: ({ processor }) => processor,
        Reference: ({ processor_reference }) => <OptionalId id={processor_reference} label="reference" />,
        'Expected on': ({ arrival_date }) => arrival_date && formatDay(arrival_date),
        Created: ({ created_at }) => <Instant at={created_at} />,
        Processing: ({ processing_at }) => processing_at && <Instant at={processing_at} />,
        Paid: ({ paid_at }) => paid_at && <Instant at={paid_at} />,
        'Failure requested': ({ fail_requested_at }) =>
          fail_requested_at && <Instant at={fail_requested_at} />,
        Failed: ({ failed_at }) => failed_at && <Instant at={failed_at} />,
        Canceled: ({ canceled_at }) => canceled_at && <Instant at={canceled_at} />,
        Transactions: (
          <Link to="/wallet" search={{ subject_id: id }}>
            See it in the wallet
          </Link>
        ),
      }}
    />
  )
}

/** The status, the next step, and what the user can do. */
function PayoutSummary({ payout }: { payout: Payout }) {
  const { status, amount_minor, currency, arrival_date, failure, paid_at, fail_requested_at } = payout
  const money = formatMoney(amount_minor, currency)
  if (fail_requested_at !== null && (status === 'pending' || status === 'processing'))
    return (
      <>
        A failure was requested{failure !== null && ` (“${failure.message}”)`}. {money} stays reserved until
        the processor can no longer pay it. If the processor pays it anyway, the payout becomes paid.
      </>
    )
  const arrival =
    arrival_date === null ? '' : ` The money is expected to arrive on ${formatDay(arrival_date)}.`
  switch (status) {
    case 'pending':
      return (
        <>The processor has not accepted the payout yet. {money} is reserved. You need not do anything.</>
      )
    case 'processing':
      return (
        <>
          The payout is in transit, and {money} is reserved.{arrival}
        </>
      )
    case 'paid':
      return (
        <>
          The payout was paid, and {money} left your balance. If the bank returns it, the payout becomes
          failed.
        </>
      )
    case 'canceled':
      return <>The payout was canceled in time. {money} is available again.</>
    default:
      return (
        <>
          {failure?.manual === true
            ? 'The payout was marked as failed by hand'
            : paid_at === null
              ? 'The payout failed'
              : 'The payout was returned'}
          {failure !== null && `: ${failure.message}`}{' '}
          {paid_at === null ? 'Nothing is reserved.' : 'The money is in your balance again.'} To try again,
          create another payout.
        </>
      )
  }
}

const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
const formatDay = (day: string): string => DAY.format(new Date(day))
