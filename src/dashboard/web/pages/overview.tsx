// Overview: volume, success rate, balance and longest wait, and everything that needs attention.
import { NativeSelect } from '@mantine/core'
import { useAddressSearch } from '../address.ts'
import type { Answers } from '../generated/answers.ts'
import { firstPaymentCurl } from '../kit/curl.ts'
import { Figure } from '../kit/Figure.tsx'
import { formatDuration } from '../kit/Instant.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { ErrorPage } from '../kit/ErrorPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { EmptyState } from '../kit/states.tsx'
import { AttentionList } from '../overview/attention.tsx'
import { VolumeChart } from '../overview/VolumeChart.tsx'
import { useAnswer } from '../queries.ts'
import { useAreaState, useSession } from '../session.tsx'
import { counted } from '../kit/counts.ts'

type OverviewAnswer = Answers['GET /overview']
type CurrencyWeeks = OverviewAnswer['currencies'][number]
type Counts = CurrencyWeeks['week']

const WEEK = 7

export function OverviewPage() {
  const { tenant, is_operator } = useSession()
  const payments = useAreaState('payments') === 'deployed'
  const wallet = useAreaState('wallet') === 'deployed'
  const query = useAnswer<OverviewAnswer>('/overview', undefined, { interval_ms: 10_000 })
  const { data, error, refetch } = query
  const [search, change] = useAddressSearch()
  if (error !== null && data === undefined)
    return <ErrorPage title="Overview" error={error} retry={refetch} />
  const currencies = currenciesOf(data)
  const currency = currencies.find((each) => each === search['currency']) ?? currencies[0] ?? 'usd'
  const is_empty = data !== undefined && currencies.length === 0
  return (
    <>
      <PageHeader
        title="Overview"
        description={
          data !== undefined && data.uncounted_events > 0
            ? `${tenant?.name ?? ''} · ${counted(data.uncounted_events, 'recent event is', 'recent events are')} not counted yet`
            : tenant?.name
        }
        read={query}
        as_of={data && Date.parse(data.as_of)}
        actions={
          currencies.length > 1 && (
            <NativeSelect
              aria-label="Currency"
              value={currency}
              onChange={(event) => change({ currency: event.currentTarget.value })}
              data={currencies.map((each) => ({ value: each, label: each.toUpperCase() }))}
            />
          )
        }
      />
      <div className="figures-row">
        {payments && <VolumeFigure data={data} currency={currency} />}
        {payments && <SuccessFigure data={data} />}
        {wallet && <BalanceFigure data={data} currency={currency} />}
        <WaitFigure data={data} {...(is_operator && { to: '/ops/queues' })} />
      </div>
      {payments && is_empty && data.attention.length === 0 ? (
        <EmptyState title="No payments yet" curl={firstPaymentCurl()}>
          Create a payment from your program, or with this command.
        </EmptyState>
      ) : (
        <AttentionList of={data} />
      )}
      {payments && !is_empty && (
        <VolumeChart
          of={data?.currencies.find((each) => each.currency === currency)}
          currency={currency}
          loading={data === undefined}
        />
      )}
    </>
  )
}

/** The currencies with payments or a balance, the one with the most payments first. */
function currenciesOf(data: OverviewAnswer | undefined): string[] {
  const by_count = (data?.currencies ?? []).toSorted(
    (a, b) => b.week.captured - a.week.captured || b.week.authorized - a.week.authorized,
  )
  const names = [...by_count, ...(data?.balances ?? [])].map(({ currency }) => currency)
  return [...new Set(names)]
}

type FigureOf = { data: OverviewAnswer | undefined; currency: string }

function VolumeFigure({ data, currency }: FigureOf) {
  const of = data?.currencies.find((each) => each.currency === currency)
  const others = data?.currencies.filter((each) => each !== of && each.week.captured_minor > 0) ?? []
  return (
    <Figure
      name="Volume"
      value={data && formatMoney(of?.week.captured_minor ?? 0, currency)}
      note={
        data &&
        (others.length > 0
          ? `and ${others.map((each) => formatMoney(each.week.captured_minor, each.currency)).join(', ')}`
          : counted(of?.week.captured ?? 0, 'payment'))
      }
      trend={volumeTrend(of)}
      to="/payments"
    />
  )
}

function SuccessFigure({ data }: { data: OverviewAnswer | undefined }) {
  const all = data?.currencies ?? []
  const successRateOf = (counts: Counts[]) => {
    const authorized = counts.reduce((sum, each) => sum + each.authorized, 0)
    const failed = counts.reduce((sum, each) => sum + each.failed, 0)
    return { rate: authorized + failed === 0 ? null : authorized / (authorized + failed), failed }
  }
  const { rate, failed } = successRateOf(all.map(({ week }) => week))
  const { rate: before } = successRateOf(all.map(({ week_before }) => week_before))
  const change = rate === null || before === null ? 0 : rate - before
  return (
    <Figure
      name="Success rate"
      value={data && (rate === null ? 'No payments' : percent(rate, 1))}
      note={data && `${failed.toLocaleString()} failed, in all currencies`}
      {...(rate !== null &&
        before !== null && {
          trend: {
            by: Math.abs(change) < 0.0005 ? 'none' : change > 0 ? 'up' : 'down',
            good: change > 0,
            text: `${percent(before, 1)} the week before`,
          },
        })}
    />
  )
}

function BalanceFigure({ data, currency }: FigureOf) {
  const balance = data?.balances.find((each) => each.currency === currency)
  const others = data?.balances.filter((each) => each !== balance && each.balance_minor !== 0) ?? []
  const pending = balance?.pending_payouts_minor ?? 0
  return (
    <Figure
      name="Balance"
      value={data && formatMoney(balance?.balance_minor ?? 0, currency)}
      note={
        data &&
        (others.length > 0
          ? `and ${others.map((each) => formatMoney(each.balance_minor, each.currency)).join(', ')}`
          : pending > 0
            ? `${formatMoney(pending, currency)} of it reserved for payouts`
            : (balance?.available_minor ?? 0) > 0
              ? 'All of it can be paid out'
              : 'Nothing can be paid out')
      }
      history={balance?.days_minor ?? []}
      to="/wallet"
    />
  )
}

/** The longest wait of a job: for a worker, or for a successful attempt. */
function WaitFigure({ data, to }: { data: OverviewAnswer | undefined; to?: string }) {
  const { oldest_due_s: due_s = 0, retrying = 0, oldest_retrying_s: retrying_s = 0 } = data ?? {}
  const retried = `${counted(retrying, 'job is', 'jobs are')} retried`
  const note =
    retrying > 0
      ? `${retried}, for up to ${formatDuration(retrying_s * 1000)}`
      : due_s > 0
        ? 'Oldest due job'
        : 'No job is waiting'
  const longest_s = Math.max(due_s, retrying_s)
  const value = longest_s > 0 ? formatDuration(longest_s * 1000) : 'None'
  return (
    <Figure name="Longest wait" value={data && value} note={data && note} period="now" {...(to && { to })} />
  )
}

function percent(part: number, digits = 0): string {
  return new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: digits }).format(part)
}

/** The last six full days compared with the same days a week earlier. Today is incomplete and not included. */
function volumeTrend(of: CurrencyWeeks | undefined) {
  const captured = (from: number, to: number) =>
    (of?.days ?? []).slice(from, to).reduce((sum, { captured_minor }) => sum + captured_minor, 0)
  const [now, before] = [captured(-WEEK, -1), captured(-2 * WEEK, -WEEK - 1)]
  if (before === 0) return undefined
  const change = (now - before) / before
  if (Math.abs(change) < 0.005)
    return { by: 'none' as const, good: true, text: 'the same as last week, without today' }
  return {
    by: change > 0 ? ('up' as const) : ('down' as const),
    good: change > 0,
    text: `${percent(Math.abs(change))} ${change > 0 ? 'more' : 'less'} than last week, without today`,
  }
}
