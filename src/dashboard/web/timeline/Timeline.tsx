// A timeline as a waterfall: each entry is a bar on a shared time axis.
import { Button, Tooltip } from '@mantine/core'
import { useElementSize } from '@mantine/hooks'
import { ChevronDown, ChevronRight, type LucideIcon } from 'lucide-react'
import { Fragment, useState, type ReactNode } from 'react'
import { formatDuration } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { Status } from '../kit/Status.tsx'
import { statusFacts } from '../kit/statuses.ts'
import { formatClock, formatExact, formatOffset } from './offset.ts'
import { labelsOf, placeBars, type Waterfall } from './waterfall.ts'
import { counted } from '../kit/counts.ts'

export type TimelineItem = {
  /** Unique within the timeline. */
  id: string
  at: string
  /** The end. Omitted for entries without a duration. */
  ended_at?: string | null
  icon: LucideIcon
  /** The name of the entry: `Capture`. */
  name: ReactNode
  /** The actor or the job: `payment.capture, attempt 2`. */
  note?: ReactNode
  /** A status of statuses.ts. */
  outcome?: string | null
  /** The change, or one sentence about the failure. */
  changed?: ReactNode
  /** Links to related pages, shown when the entry is expanded. */
  links?: ReactNode
  /** JSON that is shown when the entry is expanded. */
  details?: unknown
  /** False: hidden until all entries are shown. */
  is_major?: boolean
}

/** Loads earlier entries. `start`: the first entry of all, which is shown before the gap. */
export type EarlierEntries = { show: () => unknown; busy: boolean; start?: TimelineItem }

/** Entries, oldest first. Long periods without activity are cut out of the axis and named between the entries. */
export function Timeline({
  items,
  label = 'Timeline',
  earlier,
}: {
  items: TimelineItem[]
  label?: string
  earlier?: EarlierEntries | undefined
}) {
  const [all, setAll] = useState(false)
  const start = earlier?.start === undefined ? [] : [earlier.start]
  const visible = [...start, ...(all ? items : items.filter(({ is_major = true }) => is_major))]
  const { bars, breaks, ticks } = placeBars(visible)
  const minor = items.filter(({ is_major = true }) => !is_major).length
  const changed_ids = useChangedEntries(items)
  const first = visible[0]?.at ?? ''
  return (
    <>
      {ticks.length > 0 && <Axis ticks={ticks} breaks={breaks} />}
      <ol className="timeline" aria-label={label}>
        {earlier !== undefined && start.length === 0 && <ShowEarlierButton earlier={earlier} />}
        {visible.map((item, at) => {
          const { left, width, gap_ms } = bars[at] ?? { left: 0, width: 0, gap_ms: 0 }
          const is_after = at === start.length && start.length > 0
          return (
            <Fragment key={item.id}>
              {is_after && earlier !== undefined && <ShowEarlierButton earlier={earlier} />}
              {gap_ms > 0 && !is_after && <li className="timeline-gap">{formatDuration(gap_ms)} later</li>}
              <Entry
                item={item}
                first={first}
                bar={{ left, width }}
                breaks={breaks}
                changed_ids={changed_ids.has(item.id)}
              />
            </Fragment>
          )
        })}
      </ol>
      {minor > 0 && (
        <div className="timeline-more">
          <Button variant="subtle" onClick={() => setAll(!all)} aria-expanded={all}>
            {`${all ? 'Hide' : 'Show'} ${counted(minor, 'minor entry', 'minor entries')}`}
          </Button>
        </div>
      )}
    </>
  )
}

function ShowEarlierButton({ earlier: { show, busy } }: { earlier: EarlierEntries }) {
  return (
    <li className="timeline-more">
      <Button variant="subtle" loading={busy} onClick={() => void show()}>
        Show earlier entries
      </Button>
    </li>
  )
}

/** The ids of entries that were added or ended in the last read. */
function useChangedEntries(items: TimelineItem[]): Set<string> {
  const text = items.map(({ id, outcome }) => `${id} ${outcome ?? ''}`).join('\n')
  const [seen, setSeen] = useState({ text, changed_ids: new Set<string>() })
  if (seen.text !== text) {
    const previous_lines = new Set(seen.text.split('\n'))
    const changed_lines = text.split('\n').filter((line) => !previous_lines.has(line))
    const ids = seen.text === '' ? [] : changed_lines.map((line) => line.slice(0, line.lastIndexOf(' ')))
    setSeen({ text, changed_ids: new Set(ids) })
  }
  return seen.changed_ids
}

function Axis({ ticks, breaks }: Pick<Waterfall, 'ticks' | 'breaks'>) {
  const { ref, width } = useElementSize()
  const labels = labelsOf(ticks, width, (ms) => (ms === 0 ? '0' : `+${formatDuration(ms)}`))
  return (
    <div className="timeline-axis dim" aria-hidden>
      <div ref={ref}>
        {labels.map(({ left, text, is_last }) => (
          <span key={left} style={is_last ? { right: 0 } : { left: percent(left) }}>
            {text}
          </span>
        ))}
        <Breaks breaks={breaks} />
      </div>
    </div>
  )
}

function Breaks({ breaks }: Pick<Waterfall, 'breaks'>) {
  return breaks.map(({ left, width }) => (
    <i key={left} className="timeline-break" style={{ left: percent(left), width: percent(width) }} />
  ))
}

const percent = (share: number) => `${share * 100}%`

function Entry({
  item,
  first,
  bar: { left, width },
  breaks,
  changed_ids,
}: {
  item: TimelineItem
  /** The time of the first entry. Other times are relative to it. */
  first: string
  bar: { left: number; width: number }
  breaks: Waterfall['breaks']
  changed_ids: boolean
}) {
  const [open, setOpen] = useState(false)
  const { icon: Icon, outcome, ended_at, at } = item
  const duration = ended_at ? formatDuration(Date.parse(ended_at) - Date.parse(at)) : ''
  const tone = outcome ? statusFacts(outcome).tone : 'idle'
  return (
    <li data-changed={changed_ids || undefined}>
      <Tooltip label={formatExact(at)} position="top-start">
        <button type="button" className="timeline-entry" aria-expanded={open} onClick={() => setOpen(!open)}>
          <Icon size={16} aria-hidden />
          <span className="timeline-name">
            {item.name}
            <small>
              <time dateTime={at}>{at === first ? formatClock(at) : formatOffset(first, at)}</time>
              {item.note !== undefined && <> · {item.note}</>}
            </small>
          </span>
          <span className="timeline-track" aria-hidden>
            <span
              className={`timeline-bar tone-${tone}`}
              style={{ left: percent(left), width: percent(width) }}
            />
            <Breaks breaks={breaks} />
          </span>
          <span className="timeline-duration">{duration}</span>
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
      </Tooltip>
      {open && (
        <div style={{ padding: '0 8px 12px 36px' }}>
          <div className="dim">{formatExact(at)}</div>
          {item.links !== undefined && <div className="inline">{item.links}</div>}
          {item.details !== undefined && <Json value={item.details} label="details" />}
        </div>
      )}
    </li>
  )
}
