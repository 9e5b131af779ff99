// One number that answers a question, with its line and where it goes.
import { Link } from '@tanstack/react-router'
import { ArrowDownRight, ArrowRight, ArrowUpRight } from 'lucide-react'
import type { ReactNode } from 'react'
import { Skeleton } from './Bone.tsx'
import { Sparkline } from './Sparkline.tsx'
import { toneClass } from './Status.tsx'

/**
 * A big number. `value` undefined: it is on its way, at the same size. `line`: its values over the time that `over`
 * names (`last 7 days`). `trend`: the change in words (`12 % more than the week before`), with whether that is good.
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
  /** What the top of the line stands for, where it is not its highest value. */
  top?: number
  period?: string
  trend?: { by: 'up' | 'down' | 'none'; good: boolean; text: string }
  /** What else is to be said, in one line under the value. */
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
