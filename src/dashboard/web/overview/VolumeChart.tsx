// The chart of the overview: what was captured on each day, against the same number of days before.
import type { Answers } from '../generated/answers.ts'
import { formatMoney, compactMoney } from '../kit/amounts.ts'
import { LineChart } from '../kit/LineChart.tsx'

type Currency = Answers['GET /overview']['currencies'][number]

/** Half of the days that are known: as many are before them. */
const PERIOD_DAYS = 30

/** `of` undefined: nothing was captured in this currency. `loading`: that is not known yet. */
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
  const shown = days.slice(-PERIOD_DAYS)
  const before = days.slice(-2 * PERIOD_DAYS, -PERIOD_DAYS)
  const amounts = (some: Currency['days']) => some.map(({ captured_minor }) => captured_minor)
  return (
    <section className="section">
      <LineChart
        title={`Volume by day, ${currency.toUpperCase()}`}
        at={loading ? undefined : shown.map(({ day }) => noonOf(day))}
        summed
        series={[
          { name: `Last ${PERIOD_DAYS} days`, values: amounts(shown) },
          { name: `${PERIOD_DAYS} days before`, values: amounts(before) },
        ]}
        format={(minor) => formatMoney(minor, currency)}
        formatAxis={(minor) => compactMoney(minor, currency)}
        formatAt={(at) => DAY.format(new Date(at))}
      />
    </section>
  )
}

/** Days are UTC; at noon they have one name in nearly every time zone. */
const noonOf = (day: string) => `${day}T12:00:00Z`
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeZone: 'UTC' })
