// The command palette: pages, acts of the current page, and search results.
import { Modal } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useNavigate } from '@tanstack/react-router'
import { CornerDownLeft, FileSearch, ListChecks, Search, Zap, type LucideIcon } from 'lucide-react'
import { useId, useState, type KeyboardEvent } from 'react'
import type { AddressSearch } from '../address.ts'
import type { Answers } from '../generated/answers.ts'
import { shortId, UUID } from '../kit/Id.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { PALETTE_PAGES, OPERATOR_PAGES, TENANT_PAGES } from '../nav.ts'
import { resourceLabel, pageOfResource } from '../resources.ts'
import type { JobRow } from '../operations/shapes.ts'
import { useAnswer } from '../queries.ts'
import { useSession } from '../session.tsx'
import { useOfferedActs } from './acts.ts'

/** A result of `GET /api/find?q=`. */
type FoundRow = Answers['GET /find'][number]
type PaletteOption = { key: string; title: string; note?: string; icon: LucideIcon; run: () => void }

export function PaletteButton({ open }: { open: () => void }) {
  return (
    <button type="button" className="shell-search" onClick={open} aria-haspopup="dialog">
      <Search size={14} aria-hidden />
      <span>Find anything</span>
      <kbd aria-hidden>Ctrl K</kbd>
    </button>
  )
}

export function Palette({ opened, close }: { opened: boolean; close: () => void }) {
  return (
    <Modal
      opened={opened}
      onClose={close}
      centered={false}
      yOffset="12vh"
      padding={0}
      size={560}
      attributes={{ content: { 'aria-label': 'Palette' } }}
    >
      <PaletteBody close={close} />
    </Modal>
  )
}

function PaletteBody({ close }: { close: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const id = useId()
  const options = useOptions(text, close)
  const chosen = Math.min(at, options.length - 1)

  function move(event: KeyboardEvent): void {
    if (event.key === 'Enter') options[chosen]?.run()
    else if (event.key === 'ArrowDown') setAt((chosen + 1) % Math.max(1, options.length))
    else if (event.key === 'ArrowUp') setAt((chosen + options.length - 1) % Math.max(1, options.length))
    else return
    event.preventDefault()
  }

  return (
    <>
      <div className="palette-head">
        <Search size={16} aria-hidden />
        <input
          data-autofocus
          role="combobox"
          aria-expanded
          aria-controls={`${id}-list`}
          aria-activedescendant={chosen < 0 ? undefined : `${id}-${chosen}`}
          aria-label="Page, action, id, customer or job"
          placeholder="Page, action, id, customer or job"
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value)
            setAt(0)
          }}
          onKeyDown={move}
        />
      </div>
      <div id={`${id}-list`} role="listbox" aria-label="Found" className="palette-list">
        {options.map(({ key, title, note, icon: Icon, run }, index) => (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the search field handles its keys
          <div
            key={key}
            id={`${id}-${index}`}
            role="option"
            tabIndex={-1}
            aria-selected={index === chosen}
            className="palette-option"
            onClick={run}
            onPointerMove={() => setAt(index)}
          >
            <Icon size={16} aria-hidden />
            {title}
            {note !== undefined && <span className="dim mono">{note}</span>}
            {index === chosen && <CornerDownLeft size={14} aria-hidden className="palette-enter" />}
          </div>
        ))}
      </div>
      {options.length === 0 && (
        <p className="palette-empty">
          No results. You can search for a page, an id or its last eight characters, a reference of the
          processor, the email of a customer, or a word of a name or a description of the latest thousand
          rows.
        </p>
      )}
    </>
  )
}

function useOptions(text: string, close: () => void): PaletteOption[] {
  const { is_operator, tenant } = useSession()
  const navigate = useNavigate()
  const acts = useOfferedActs()
  const filter_text = text.trim().toLowerCase()
  const [q] = useDebouncedValue(text.trim(), 150)
  const searches = q.length >= 2 && q.length <= MAX_SEARCH_LENGTH
  const { data: found } = useAnswer<FoundRow[]>('/find', { q }, { enabled: searches && tenant !== null })
  const searches_jobs = is_operator && UUID.test(q)
  const { data: jobs } = useAnswer<{ items: JobRow[] }>('/ops/jobs', jobQuery(q), { enabled: searches_jobs })
  const rows = searches ? (found ?? []) : []

  const go =
    (to: string, search: AddressSearch = {}) =>
    () => {
      close()
      void navigate({ to, search })
    }
  const pages = [
    ...(tenant === null ? [] : [...TENANT_PAGES, ...PALETTE_PAGES]),
    ...(is_operator ? OPERATOR_PAGES : []),
  ]
  const matches = (title: string) => filter_text === '' || title.toLowerCase().includes(filter_text)
  return [
    ...acts
      .filter(({ title }) => matches(title))
      .map(({ title, run }) => ({
        key: `act ${title}`,
        title,
        icon: Zap,
        run: () => {
          close()
          // The act runs after the palette has returned the focus.
          setTimeout(run, 0)
        },
      })),
    ...pages
      .filter(({ title }) => matches(title))
      .map(({ title, to, icon }) => ({ key: to, title, icon, run: go(to) })),
    // Search results come last, because they arrive later: the selection must not move.
    ...rows.map((row) => {
      const to = pageOfResource(row.resource, row.id)
      return {
        key: `${row.resource} ${row.id}`,
        title: titleOf(row),
        note: shortId(row.id),
        icon: FileSearch,
        // Resources without a page: show their events.
        run: go(to ?? '/events', to === undefined ? { subject_id: row.id } : {}),
      }
    }),
    ...(searches_jobs ? (jobs?.items ?? []) : []).map(({ id, name }) => ({
      key: `job ${id}`,
      title: `Job ${name}`,
      note: id,
      icon: ListChecks,
      run: go(`/ops/jobs/${id}`),
    })),
  ]
}

/** The title of a search result: `Payment $12.00 Order 17`. */
function titleOf({ resource, name, amount_minor, currency }: FoundRow): string {
  const amount = amount_minor !== null && currency !== null && formatMoney(amount_minor, currency)
  return [resourceLabel(resource), amount, name].filter(Boolean).join(' ')
}

/** The server's limit for `q`. */
const MAX_SEARCH_LENGTH = 255
const jobQuery = (search: string) => ({ search, state: 'all', limit: 5 })
