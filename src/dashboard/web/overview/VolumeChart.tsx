// The captured volume by day, compared with the period before.
import type { Answers } from '../generated/answers.ts'
import { formatMoney, compactMoney } from '../kit/amounts.ts'
import { LineChart } from '../kit/LineChart.tsx'

type Currency = Answers['GET /overview']['currencies'][number]

/** The response has twice as many days: this period and the one before. */
const PERIOD_DAYS = 30

/** `of` undefined: there are no captures in this currency, or the response is still `loading`. */
export function VolumeChart({
  of,
  currency,
  loading,
}: {
  of: Currency | undefined
  currency: string
  loading: boolean
}) {
  const days = of?.days ?? []
  const period = days.slice(-PERIOD_DAYS)
  const before = days.slice(-2 * PERIOD_DAYS, -PERIOD_DAYS)
  const amounts = (some: Currency['days']) => some.map(({ captured_minor }) => captured_minor)
  return (
    <section className="section">
      <LineChart
        title={`Volume by day, ${currency.toUpperCase()}`}
        at={loading ? undefined : period.map(({ day }) => noonOf(day))}
        summed
        series={[
          { name: `Last ${PERIOD_DAYS} days`, values: amounts(period) },
          { name: `${PERIOD_DAYS} days before`, values: amounts(before) },
        ]}
        format={(minor) => formatMoney(minor, currency)}
        formatAxis={(minor) => compactMoney(minor, currency)}
        formatAt={(at) => DAY.format(new Date(at))}
      />
    </section>
  )
}

/** Days are UTC. Noon has the same date in nearly every time zone. */
const noonOf = (day: string) => `${day}T12:00:00Z`
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
