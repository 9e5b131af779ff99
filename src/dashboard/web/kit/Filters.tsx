// The filters of a list: fields that write into the address, and a chip for each that is set.
import { NativeSelect, TextInput } from '@mantine/core'
import { Search, X } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { useAddressSearch } from '../address.ts'
import { inWords } from './statuses.ts'

export type FilterField =
  | {
      kind: 'select'
      name: string
      label: string
      options: (string | { value: string; label: string })[]
      /** What holds while it is not set. */
      unset?: string
    }
  | { kind: 'text'; name: string; label: string; placeholder?: string }
  /** Days: two words of the address, the beginning of the first and the end of the second. */
  | { kind: 'days'; from: string; to: string; label: string }

/** Fields by their labels; `end` is what stands at the end of their line, e.g. `CsvExport`. */
export function Filters({ fields, end }: { fields: FilterField[]; end?: ReactNode }) {
  const [search, change] = useAddressSearch()
  // Another filter is another list, which begins at its first page.
  const set = (some: Record<string, string | undefined>) =>
    change({ ...some, before: undefined, after: undefined })
  const chips = fields.flatMap((field) => chipsOf(field, search))
  return (
    <search aria-label="Filters">
      <div className="filters">
        {fields.map((field) => (
          <Field key={field.label} field={field} search={search} set={set} />
        ))}
        {end !== undefined && <div className="filters-end">{end}</div>}
      </div>
      {chips.length > 0 && (
        <ul className="line" aria-label="Active filters" style={{ marginBottom: 12 }}>
          {chips.map(({ name, text }) => (
            <li key={name} className="chip">
              {text}
              <button
                type="button"
                className="copy"
                aria-label={`Remove filter ${text}`}
                onClick={() => set({ [name]: undefined })}
              >
                <X size={12} />
              </button>
            </li>
          ))}
        </ul>
      )}
    </search>
  )
}

type FieldState = {
  search: Record<string, string | undefined>
  set: (some: Record<string, string | undefined>) => void
}

function Field({ field, search, set }: FieldState & { field: FilterField }) {
  if (field.kind === 'text') return <TextField field={field} value={search[field.name] ?? ''} set={set} />
  if (field.kind === 'select')
    return (
      <NativeSelect
        label={field.label}
        value={search[field.name] ?? ''}
        onChange={(event) => set({ [field.name]: event.currentTarget.value })}
        data={[{ value: '', label: field.unset ?? 'Any' }, ...field.options.map(optionOf)]}
      />
    )
  return (
    <>
      <TextInput
        type="date"
        label={`${field.label} from`}
        value={dayOf(search[field.from])}
        onChange={(event) => set({ [field.from]: instantOf(event.currentTarget.value, 0) })}
      />
      <TextInput
        type="date"
        label={`${field.label} until`}
        value={dayOf(search[field.to], 1)}
        onChange={(event) => set({ [field.to]: instantOf(event.currentTarget.value, 1) })}
      />
    </>
  )
}

/** Asks on enter and when it is left, not at each letter. */
function TextField({
  field,
  value,
  set,
}: {
  field: { name: string; label: string; placeholder?: string }
  value: string
  set: FieldState['set']
}) {
  const [typed, setTyped] = useState({ text: value, from: value })
  // The address has changed by itself: by a chip, or by going back.
  const text = typed.from === value ? typed.text : value
  const commit = () => {
    if (text.trim() !== value) set({ [field.name]: text.trim() })
  }
  return (
    <TextInput
      type="search"
      data-search={field.label === 'Search' || undefined}
      label={field.label}
      placeholder={field.placeholder}
      leftSection={field.label === 'Search' ? <Search size={14} /> : undefined}
      value={text}
      onChange={(event) => setTyped({ text: event.currentTarget.value, from: value })}
      onBlur={commit}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commit()
      }}
    />
  )
}

function chipsOf(field: FilterField, search: Record<string, string | undefined>) {
  const chip = (name: string, label: string, shown: (value: string) => string) => {
    const value = search[name]
    return value === undefined || value === '' ? [] : [{ name, text: `${label}: ${shown(value)}` }]
  }
  if (field.kind === 'days')
    return [
      ...chip(field.from, `${field.label} from`, (value) => dayOf(value)),
      ...chip(field.to, `${field.label} until`, (value) => dayOf(value, 1)),
    ]
  return chip(field.name, field.label, (value) =>
    field.kind === 'select'
      ? (field.options.map(optionOf).find((option) => option.value === value)?.label ?? value)
      : value,
  )
}

const optionOf = (option: string | { value: string; label: string }) =>
  typeof option === 'string' ? { value: option, label: inWords(option) } : option

/** The beginning of a day where the reader is, or with `days` of one after it, as an instant. */
function instantOf(day: string, days: number): string | undefined {
  const [year, month, date] = day.split('-').map(Number)
  if (year === undefined || month === undefined || date === undefined) return undefined
  return new Date(year, month - 1, date + days).toISOString()
}

/** The day that an instant of `instantOf` was made of. */
function dayOf(instant: string | undefined, days = 0): string {
  if (instant === undefined || instant === '') return ''
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return ''
  at.setDate(at.getDate() - days)
  const two = (part: number) => String(part).padStart(2, '0')
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}
