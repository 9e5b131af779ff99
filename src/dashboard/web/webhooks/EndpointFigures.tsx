// How an endpoint fared in the last seven days: its statistics, and the same over time.
import type { WebhookEndpointStats } from '#sdk/index.ts'
import type { Answers } from '../generated/answers.ts'
import { Figure } from '../kit/Figure.tsx'
import { formatDuration } from '../kit/Instant.tsx'
import { LineChart } from '../kit/LineChart.tsx'
import { useAnswer } from '../queries.ts'

type Hour = Answers['GET /webhook_endpoints/{id}/hours'][number]

export function EndpointFigures({ id, stats }: { id: string; stats: WebhookEndpointStats | undefined }) {
  const { data: hours } = useAnswer<Hour[]>(`/webhook_endpoints/${id}/hours`, undefined, { every_ms: 60_000 })
  const attempts_failed = hours?.reduce((sum, { failed_attempts }) => sum + failed_attempts, 0)
  const took = (ms: number | null | undefined) =>
    ms === null ? '–' : ms === undefined ? undefined : formatDuration(ms)
  const lineOf = (name: keyof Omit<Hour, 'at'>) => hours?.map((hour) => hour[name] ?? 0) ?? []
  return (
    <>
      <div className="figures-row">
        <Figure
          name="Success rate"
          value={stats && attempts_failed !== undefined && successRate({ ...stats, attempts_failed })}
          line={lineOf('delivered')}
          over={
            stats
              ? `${stats.delivered.toLocaleString()} delivered, ${stats.failed.toLocaleString()} failed, ${(attempts_failed ?? 0).toLocaleString()} failed attempts`
              : ''
          }
        />
        <Figure name="p50 response time" value={took(stats?.p50_ms)} line={lineOf('p50_ms')} />
        <Figure name="p95 response time" value={took(stats?.p95_ms)} line={lineOf('p95_ms')} />
        <Figure name="Pending now" value={stats?.pending.toLocaleString()} over="now" />
      </div>
      <section className="section">
        <LineChart
          title="Deliveries by hour"
          at={hours?.map(({ at }) => at)}
          series={[
            { name: 'delivered', values: lineOf('delivered') },
            { name: 'failed attempts', values: lineOf('failed_attempts') },
            { name: 'failed for good', values: lineOf('failed') },
          ]}
        />
      </section>
      <section className="section">
        <LineChart
          title="Response time"
          at={hours?.map(({ at }) => at)}
          format={formatDuration}
          series={[
            { name: 'p50', values: hours?.map(({ p50_ms }) => p50_ms) ?? [] },
            { name: 'p95', values: hours?.map(({ p95_ms }) => p95_ms) ?? [] },
          ]}
        />
      </section>
    </>
  )
}

/** The share of deliveries that arrived; where none has ended yet, that every attempt failed counts. */
export function successRate(of: { delivered: number; failed: number; attempts_failed: number }): string {
  const { delivered, failed, attempts_failed } = of
  if (delivered + failed + attempts_failed === 0) return '–'
  const rate = delivered === 0 ? 0 : delivered / (delivered + failed)
  return rate.toLocaleString(undefined, { style: 'percent', maximumFractionDigits: 1 })
}
