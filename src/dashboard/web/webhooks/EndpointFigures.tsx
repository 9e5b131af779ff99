// The statistics of an endpoint in the last seven days, as totals and over time.
import type { WebhookEndpointStats } from '#sdk/index.ts'
import type { UseQueryResult } from '@tanstack/react-query'
import type { Answers } from '../generated/answers.ts'
import { Figure } from '../kit/Figure.tsx'
import { formatDuration } from '../kit/Instant.tsx'
import { LineChart } from '../kit/LineChart.tsx'
import { ErrorState } from '../kit/states.tsx'
import { useAnswer } from '../queries.ts'
import { counted } from '../kit/counts.ts'

type Hour = Answers['GET /webhook_endpoints/{id}/hours'][number]

export function EndpointFigures({
  id,
  stats,
}: {
  id: string
  stats: Pick<UseQueryResult<WebhookEndpointStats>, 'data' | 'error' | 'refetch'>
}) {
  const hours = useAnswer<Hour[]>(`/webhook_endpoints/${id}/hours`, undefined, { interval_ms: 60_000 })
  const failed = [stats, hours].find(({ data, error }) => data === undefined && error !== null)
  if (failed?.error)
    return (
      <section className="section">
        <ErrorState error={failed.error} retry={failed.refetch} />
      </section>
    )
  return <Figures stats={stats.data} hours={hours.data} />
}

function Figures({ stats, hours }: { stats: WebhookEndpointStats | undefined; hours: Hour[] | undefined }) {
  const attempts_failed = hours?.reduce((sum, { failed_attempts }) => sum + failed_attempts, 0)
  const formatTime = (ms: number | null | undefined) =>
    ms === null ? '–' : ms === undefined ? undefined : formatDuration(ms)
  const seriesOf = (name: keyof Omit<Hour, 'at'>) => hours?.map((hour) => hour[name]) ?? []
  return (
    <>
      <div className="figures-row">
        <Figure
          name="Success rate"
          value={stats && attempts_failed !== undefined && successRate({ ...stats, attempts_failed })}
          history={hours?.map((hour) => rateOf({ ...hour, attempts_failed: hour.failed_attempts })) ?? []}
          top={1}
          period={
            stats
              ? `${stats.delivered.toLocaleString()} delivered, ${stats.failed.toLocaleString()} failed, ${counted(attempts_failed ?? 0, 'failed attempt')}`
              : ''
          }
        />
        <Figure name="p50 response time" value={formatTime(stats?.p50_ms)} history={seriesOf('p50_ms')} />
        <Figure name="p95 response time" value={formatTime(stats?.p95_ms)} history={seriesOf('p95_ms')} />
        <Figure name="Pending now" value={stats?.pending.toLocaleString()} period="now" />
      </div>
      <section className="section">
        <LineChart
          title="Deliveries by hour"
          at={hours?.map(({ at }) => at)}
          series={[
            { name: 'delivered', values: seriesOf('delivered') },
            { name: 'failed attempts', values: seriesOf('failed_attempts') },
            { name: 'failed for good', values: seriesOf('failed') },
          ]}
        />
      </section>
      <section className="section">
        <LineChart
          title="Response time"
          at={hours?.map(({ at }) => at)}
          format={formatDuration}
          series={[
            { name: 'p50', values: seriesOf('p50_ms') },
            { name: 'p95', values: seriesOf('p95_ms') },
          ]}
        />
      </section>
    </>
  )
}

type DeliveryCounts = { delivered: number; failed: number; attempts_failed: number }

/**
 * The share of successful deliveries. While no delivery has ended, failed attempts give a share of 0. Null: nothing
 * was sent.
 */
function rateOf({ delivered, failed, attempts_failed }: DeliveryCounts): number | null {
  if (delivered + failed + attempts_failed === 0) return null
  return delivered === 0 ? 0 : delivered / (delivered + failed)
}

export function successRate(of: DeliveryCounts): string {
  return rateOf(of)?.toLocaleString(undefined, { style: 'percent', maximumFractionDigits: 1 }) ?? '–'
}
