// What happened to something, as a waterfall: each entry a bar on one time axis.
import { Button } from '@mantine/core'
import { ChevronDown, ChevronRight, type LucideIcon } from 'lucide-react'
import { Fragment, useState, type ReactNode } from 'react'
import { formatDuration, formatInstant } from './Instant.tsx'
import { Json } from './Json.tsx'
import { Status } from './Status.tsx'
import { statusFacts } from './statuses.ts'
import { placeBars } from './waterfall.ts'

export type TimelineItem = {
  /** Of one list, each its own. */
  id: string
  at: string
  /** When it was over; left out for what took no time. */
  ended_at?: string | null
  icon: LucideIcon
  /** What it is: `Capture`. */
  name: ReactNode
  /** By whom or with what: `payment.capture, attempt 2`. */
  note?: ReactNode
  /** A status of statuses.ts. */
  outcome?: string | null
  /** What it changed, or in one sentence why it failed. */
  changed?: ReactNode
  /** Links to what it is about; shown when it is unfolded. */
  more?: ReactNode
  /** Shown when it is unfolded, as JSON. */
  details?: unknown
  /** False: only shown with all others. */
  matters?: boolean
}

/** Oldest first. The time in which nothing happened is left out of the axis, and said between the entries. */
export function Timeline({ items, label = 'Timeline' }: { items: TimelineItem[]; label?: string }) {
  const [all, setAll] = useState(false)
  const shown = all ? items : items.filter(({ matters = true }) => matters)
  const bars = placeBars(shown)
  const folded = items.length - shown.length
  const fresh = useFresh(items)
  const first = shown[0]?.at
  const last = shown.reduce((latest, { at, ended_at }) => {
    const end = ended_at ?? at
    return Date.parse(end) > Date.parse(latest) ? end : latest
  }, first ?? '')
  return (
    <>
      {first !== undefined && last !== undefined && first !== last && (
        <div className="timeline-axis dim" aria-hidden>
          <div>
            {[first, last].map((at) => (
              <span key={at}>{axisClock(at, first, last)}</span>
            ))}
          </div>
        </div>
      )}
      <ol className="timeline" aria-label={label}>
        {shown.map((item, at) => {
          const { left, width, gap_ms } = bars[at] ?? { left: 0, width: 0, gap_ms: 0 }
          return (
            <Fragment key={item.id}>
              {gap_ms > 0 && <li className="timeline-gap">{formatDuration(gap_ms)} later</li>}
              <Entry
                item={item}
                before={shown[at - 1]?.at}
                left={left}
                width={width}
                fresh={fresh.has(item.id)}
              />
            </Fragment>
          )
        })}
      </ol>
      {(folded > 0 || all) && (
        <div className="timeline-more">
          <Button variant="subtle" onClick={() => setAll(!all)} aria-expanded={all}>
            {all ? 'Show what matters' : `Show all ${items.length} entries`}
          </Button>
        </div>
      )}
    </>
  )
}

/** The entries that came or ended when the list was last read; at first none. */
function useFresh(items: TimelineItem[]): Set<string> {
  const text = items.map(({ id, outcome }) => `${id} ${outcome ?? ''}`).join('\n')
  const [seen, setSeen] = useState({ text, fresh: new Set<string>() })
  if (seen.text !== text) {
    const known = new Set(seen.text.split('\n'))
    const came = text.split('\n').filter((line) => !known.has(line))
    const ids = seen.text === '' ? [] : came.map((line) => line.slice(0, line.indexOf(' ')))
    setSeen({ text, fresh: new Set(ids) })
  }
  return seen.fresh
}

const DAY = { month: 'short', day: 'numeric' } as const
const TIME = { hour: '2-digit', minute: '2-digit', second: '2-digit' } as const

/** The time of day of `at`, with its day where that is not the day of `before`, or not today. */
function clock(at: string, before?: string): string {
  const [day, other] = [at, before ?? Date.now()].map((each) => new Date(each).toDateString())
  return new Date(at).toLocaleString(undefined, {
    ...(day !== other && DAY),
    ...TIME,
  })
}

/** An end of the axis: its day, or its time where both are of one day. */
function axisClock(at: string, first: string, last: string): string {
  if (new Date(first).toDateString() === new Date(last).toDateString())
    return new Date(at).toLocaleTimeString(undefined, TIME)
  return new Date(at).toLocaleDateString(undefined, DAY)
}

function Entry({
  item,
  before,
  left,
  width,
  fresh,
}: {
  item: TimelineItem
  /** When the entry before it was. */
  before: string | undefined
  left: number
  width: number
  fresh: boolean
}) {
  const [open, setOpen] = useState(false)
  const { icon: Icon, outcome, ended_at, at } = item
  const took = ended_at ? formatDuration(Date.parse(ended_at) - Date.parse(at)) : ''
  const tone = outcome ? statusFacts(outcome).tone : 'idle'
  return (
    <li data-changed={fresh || undefined}>
      <button
        type="button"
        className="timeline-entry"
        aria-expanded={open}
        title={formatInstant(at)}
        onClick={() => setOpen(!open)}
      >
        <Icon size={16} aria-hidden />
        <span className="timeline-name">
          {item.name}
          <small>
            <time dateTime={at}>{clock(at, before)}</time>
            {item.note !== undefined && <> · {item.note}</>}
          </small>
        </span>
        <span className="timeline-track" aria-hidden>
          <span
            className={`timeline-bar tone-${tone}`}
            style={{ left: `${left * 100}%`, width: `${width * 100}%` }}
          />
        </span>
        <span className="timeline-took">{took}</span>
        <span className="timeline-outcome">
          {outcome ? <Status status={outcome} /> : null}
          {item.changed !== undefined && (
            <>
              {' '}
              <small className="dim">{item.changed}</small>
            </>
          )}
        </span>
        {open ? <ChevronDown size={14} aria-hidden /> : <ChevronRight size={14} aria-hidden />}
      </button>
      {open && (
        <div style={{ padding: '0 8px 12px 36px' }}>
          <div className="dim">{formatInstant(at)}</div>
          {item.more !== undefined && <div className="line">{item.more}</div>}
          {item.details !== undefined && <Json value={item.details} label="details" />}
        </div>
      )}
    </li>
  )
}
