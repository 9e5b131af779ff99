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
  const ended = stats && stats.delivered + stats.failed
  const took = (ms: number | null | undefined) =>
    ms === null ? '–' : ms === undefined ? undefined : formatDuration(ms)
  const lineOf = (name: keyof Omit<Hour, 'at'>) => hours?.map((hour) => hour[name] ?? 0) ?? []
  return (
    <>
      <div className="figures-row">
        <Figure
          name="Success rate"
          value={
            stats &&
            (ended === 0
              ? '–'
              : (stats.delivered / (ended ?? 1)).toLocaleString(undefined, {
                  style: 'percent',
                  maximumFractionDigits: 1,
                }))
          }
          line={lineOf('delivered')}
          over={
            stats
              ? `${stats.delivered.toLocaleString()} delivered, ${stats.failed.toLocaleString()} failed`
              : ''
          }
        />
        <Figure name="Half took at most" value={took(stats?.p50_ms)} line={lineOf('p50_ms')} />
        <Figure name="95 of 100 took at most" value={took(stats?.p95_ms)} line={lineOf('p95_ms')} />
        <Figure
          name="Pending now"
          value={stats?.pending.toLocaleString()}
          line={lineOf('failed_attempts')}
          over="the line: failed attempts"
        />
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
          title="How long requests took"
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
