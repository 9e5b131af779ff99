// One number, with its history and a link to its page.
import { Link } from '@tanstack/react-router'
import { ArrowDownRight, ArrowRight, ArrowUpRight } from 'lucide-react'
import type { ReactNode } from 'react'
import { Skeleton } from './Skeleton.tsx'
import { Sparkline } from './Sparkline.tsx'
import { toneClass } from './Status.tsx'

/**
 * A large number. `value` undefined: it is loading. `history`: its values over the `period` (`last 7 days`). `trend`:
 * the change as text (`12 % more than the week before`), and whether it is good.
 */
export function Figure({
  name,
  value,
  history,
  top,
  period = 'last 7 days',
  trend,
  note,
  to,
}: {
  name: string
  value: ReactNode
  history?: (number | null)[]
  /** The value at the top of the sparkline. Default: the highest value. */
  top?: number
  period?: string
  trend?: { by: 'up' | 'down' | 'none'; good: boolean; text: string }
  /** One line below the value. */
  note?: ReactNode
  to?: string
}) {
  const Arrow = trend === undefined ? undefined : ARROWS[trend.by]
  return (
    <section className="figure" aria-label={name}>
      <div className="figure-name">{to === undefined ? name : <Link to={to}>{name}</Link>}</div>
      <div className="figure-value">{value === undefined ? <Skeleton width={120} height={20} /> : value}</div>
      {note !== undefined && <div className="figure-note">{note}</div>}
      {history !== undefined && (
        <Sparkline values={history} label={`${name}, ${period}`} {...(top !== undefined && { top })} />
      )}
      <div className="page-as-of">
        {trend === undefined || Arrow === undefined ? (
          period
        ) : (
          <span className={toneClass(trend.by === 'none' ? 'idle' : trend.good ? 'good' : 'bad')}>
            <Arrow size={12} aria-hidden /> {trend.text}
          </span>
        )}
      </div>
    </section>
  )
}

const ARROWS = { up: ArrowUpRight, down: ArrowDownRight, none: ArrowRight }
