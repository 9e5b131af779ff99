// The filters of a list: fields that write to the address, and a chip for each active filter.
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { Search, SlidersHorizontal, X } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { useAddressSearch, type AddressSearch } from '../address.ts'
import { formatMoney, parseMoney, decimalAmount } from './amounts.ts'
import type { FilterField, Option } from './filter-fields.ts'

/** `end` is shown at the end of the fields, e.g. `CsvExport`. */
export function Filters({ fields, end }: { fields: FilterField[]; end?: ReactNode }) {
  const [search, change] = useAddressSearch()
  // A changed filter selects a different list, which is shown from its first page.
  const set = (changes: AddressSearch) => change({ ...changes, before: undefined, after: undefined })
  const visible_fields = fields.filter((field) => field.linked !== true || chipsOf(field, search).length > 0)
  const chips = visible_fields.flatMap((field) => chipsOf(field, search))
  const [open, setOpen] = useState(false)
  return (
    <search aria-label="Filters" className="filter-bar" data-open={open || undefined}>
      {/* Shown only in narrow windows, where the fields are collapsed. */}
      <Button
        className="filters-toggle"
        leftSection={<SlidersHorizontal size={14} />}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {open ? 'Hide filters' : chips.length === 0 ? 'Filters' : `Filters (${chips.length})`}
      </Button>
      <div className="filters">
        {visible_fields.map((field) => (
          <Field key={field.label} field={field} search={search} set={set} />
        ))}
        {end !== undefined && <div className="filters-end">{end}</div>}
      </div>
      {chips.length > 0 && (
        <ul className="inline" aria-label="Active filters" style={{ marginBottom: 12 }}>
          {chips.map(({ name, text }) => (
            <li key={name} className="chip">
              {text}
              <button
                type="button"
                className="icon-button"
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
  search: AddressSearch
  set: (changes: AddressSearch) => void
}

function Field({ field, search, set }: FieldState & { field: FilterField }) {
  if (field.kind === 'text')
    return (
      <TextField {...field} value={search[field.name] ?? ''} commit={(text) => set({ [field.name]: text })} />
    )
  if (field.kind === 'amount') return <AmountFields field={field} search={search} set={set} />
  if (field.kind === 'select')
    return (
      <NativeSelect
        label={field.label}
        value={search[field.name] ?? ''}
        onChange={(event) => set({ [field.name]: event.currentTarget.value })}
        data={[{ value: '', label: field.default_label ?? 'Any' }, ...optionsOf(field, search)]}
      />
    )
  return (
    <>
      <TextInput
        type="date"
        label={`${field.label} from`}
        value={instantToDay(search[field.from])}
        onChange={(event) => set({ [field.from]: dayToInstant(event.currentTarget.value, 0) })}
      />
      <TextInput
        type="date"
        label={`${field.label} until`}
        value={instantToDay(search[field.to], 1)}
        onChange={(event) => set({ [field.to]: dayToInstant(event.currentTarget.value, 1) })}
      />
    </>
  )
}

/** A text field that writes to the address on Enter and on blur, not on each keystroke, and only valid text. */
function TextField({
  label,
  placeholder,
  value,
  validate,
  commit,
  disabled = false,
}: {
  label: string
  placeholder?: string | undefined
  value: string
  validate?: ((text: string) => string | null) | undefined
  commit: (text: string) => void
  disabled?: boolean
}) {
  const [typed, setTyped] = useState({ text: value, from: value })
  const [error, setError] = useState<string | null>(null)
  // If a chip or Back has changed the address since the text was typed, the value of the address replaces the text.
  const text = typed.from === value ? typed.text : value
  const commitText = () => {
    const trimmed = text.trim()
    const found = trimmed === '' ? null : (validate?.(trimmed) ?? null)
    setError(found)
    if (found === null && trimmed !== value) commit(trimmed)
  }
  return (
    <TextInput
      type="search"
      data-search={label === 'Search' || undefined}
      label={label}
      placeholder={placeholder}
      leftSection={label === 'Search' ? <Search size={14} /> : undefined}
      value={text}
      error={error}
      disabled={disabled}
      onChange={(event) => setTyped({ text: event.currentTarget.value, from: value })}
      onBlur={commitText}
      onKeyDown={(event) => {
        if (event.key === 'Enter') commitText()
      }}
    />
  )
}

/** Amounts are in minor units of the currency, so the fields need a currency. */
function AmountFields({
  field: { from, to, label },
  search,
  set,
}: FieldState & { field: { from: string; to: string; label: string } }) {
  const currency = search['currency']
  const has_currency = currency !== undefined && currency !== ''
  return [from, to].map((name) => {
    const minor = search[name]
    return (
      <TextField
        key={name}
        label={`${label} ${name === from ? 'from' : 'to'}`}
        placeholder={has_currency ? decimalAmount(0, currency) : 'Choose a currency'}
        value={
          has_currency && minor !== undefined && minor !== '' ? decimalAmount(Number(minor), currency) : ''
        }
        validate={(text) =>
          has_currency && parseMoney(text, currency) === undefined ? `Not an amount in ${currency}` : null
        }
        commit={(text) => set({ [name]: has_currency ? parseMoney(text, currency)?.toString() : undefined })}
        disabled={!has_currency}
      />
    )
  })
}

function chipsOf(field: FilterField, search: AddressSearch) {
  const chip = (name: string, label: string, format: (value: string) => string) => {
    const value = search[name]
    return value === undefined || value === '' ? [] : [{ name, text: `${label}: ${format(value)}` }]
  }
  if (field.kind === 'days')
    return [
      ...chip(field.from, `${field.label} from`, (value) => instantToDay(value)),
      ...chip(field.to, `${field.label} until`, (value) => instantToDay(value, 1)),
    ]
  if (field.kind === 'amount') {
    const format = (minor: string) => amountText(minor, search['currency'])
    return [
      ...chip(field.from, `${field.label} from`, format),
      ...chip(field.to, `${field.label} to`, format),
    ]
  }
  return chip(field.name, field.label, (value) =>
    field.kind === 'select'
      ? (optionsOf(field, search).find((option) => option.value === value)?.label ?? value)
      : value,
  )
}

function optionsOf(
  { name, options }: Extract<FilterField, { kind: 'select' }>,
  search: AddressSearch,
): Option[] {
  return typeof options === 'function' ? options(search[name] ?? '') : options
}

function amountText(minor: string, currency = ''): string {
  return currency === '' ? `${minor} minor units` : formatMoney(Number(minor), currency)
}

/** The start of the local day that is `days` days after `day`, as an instant. */
function dayToInstant(day: string, days: number): string | undefined {
  const [year, month, date] = day.split('-').map(Number)
  if (year === undefined || month === undefined || date === undefined) return undefined
  return new Date(year, month - 1, date + days).toISOString()
}

/** The local day of an instant that `dayToInstant` has returned. */
function instantToDay(instant: string | undefined, days = 0): string {
  if (instant === undefined || instant === '') return ''
  const at = new Date(instant)
  if (Number.isNaN(at.getTime())) return ''
  at.setDate(at.getDate() - days)
  const twoDigits = (date_part: number) => String(date_part).padStart(2, '0')
  return `${at.getFullYear()}-${twoDigits(at.getMonth() + 1)}-${twoDigits(at.getDate())}`
}
