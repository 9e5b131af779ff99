// Filter definitions of lists. Types check them against the query parameters of each path.
import type { AddressSearch } from '../address.ts'
import { LIST_FILTERS } from '../generated/filters.ts'
import { humanize } from './statuses.ts'

export type Option = { value: string; label: string }

/** `linked`: shown only while the address sets the filter, for links that lead to a filtered list. */
type Field = { label: string; linked?: boolean }

/** The field of a filter. Its names are parameters of the address. */
export type FilterField = Field &
  (
    | {
        kind: 'select'
        name: string
        /** A function gets the value in the address, which may not be among the options. */
        options: Option[] | ((chosen: string) => Option[])
        /** The label of the empty option. Default: `Any`. */
        default_label?: string
        toParameters?: ToParameters
      }
    | {
        kind: 'text'
        name: string
        placeholder?: string
        validate?: (text: string) => string | null
        toParameters?: ToParameters
      }
    /** Minimum and maximum amount, in the currency of the address. The address has minor units. */
    | { kind: 'amount'; from: string; to: string }
    /** A range of days: from the start of the first to the end of the last. */
    | { kind: 'days'; from: string; to: string }
  )

/** Maps the text to parameters of the API. Default: the parameter of the same name. */
type ToParameters = (text: string) => Record<string, string | undefined>

type Lists = typeof LIST_FILTERS
type ParametersOf<Path> = Path extends keyof Lists ? Lists[Path] : object
/** Names of the parameters of type `Kind`. */
type ParameterNamesOfType<Path, Kind> = {
  [Name in keyof ParametersOf<Path>]: ParametersOf<Path>[Name] extends Kind ? Name : never
}[keyof ParametersOf<Path>] &
  string
type ValueOf<
  Path,
  Name extends keyof ParametersOf<Path>,
> = ParametersOf<Path>[Name] extends readonly (infer Value extends string)[] ? Value : never
type ParametersFor<Path> = {
  [
    Name in keyof ParametersOf<Path> & string as ParametersOf<Path>[Name] extends 'object'
      ? `${Name}[${string}]`
      : Name
  ]?: string
}
/** A parameter of the API, or another name with its mapping to parameters. */
type NamedFor<Path, Kind> =
  | { name: ParameterNamesOfType<Path, Kind>; toParameters?: never }
  | { name: string; toParameters: (text: string) => ParametersFor<Path> }

/**
 * A filter of the list at `Path`. `choice`: an enum of the API; `labels` are its labels. `select`: a text with a list
 * of options. `flag`: a boolean parameter that is true or absent; `set` is the label of the option for true.
 */
export type FilterOf<Path> = Field &
  (
    | ({ kind: 'text'; placeholder?: string; validate?: (text: string) => string | null } & NamedFor<
        Path,
        'string' | 'integer'
      >)
    | ({
        kind: 'select'
        options: Option[] | ((chosen: string) => Option[])
        default_label?: string
      } & NamedFor<Path, 'string' | 'date-time'>)
    | ChoiceOf<Path>
    | { kind: 'flag'; name: ParameterNamesOfType<Path, 'boolean'>; set: string; default_label?: string }
    | {
        kind: 'amount'
        from: ParameterNamesOfType<Path, 'integer'>
        to: ParameterNamesOfType<Path, 'integer'>
      }
    | {
        kind: 'days'
        from: ParameterNamesOfType<Path, 'date-time'>
        to: ParameterNamesOfType<Path, 'date-time'>
      }
  )

type ChoiceOf<Path> = {
  [Name in ParameterNamesOfType<Path, readonly string[]>]: {
    kind: 'choice'
    name: Name
    default_label?: string
    labels?: Record<ValueOf<Path, Name>, string>
  }
}[ParameterNamesOfType<Path, readonly string[]>]

type AnyFilter =
  | FilterField
  | (Field & { kind: 'choice'; name: string; default_label?: string; labels?: Record<string, string> })
  | (Field & { kind: 'flag'; name: string; set: string; default_label?: string })

/** The fields of a list's filters. */
export function fieldsOf<Path extends string>(path: Path, filters: FilterOf<Path>[]): FilterField[] {
  return (filters as AnyFilter[]).map((filter) => {
    if (filter.kind === 'flag') {
      const { set, ...field } = filter
      return { ...field, kind: 'select', options: [{ value: 'true', label: set }] }
    }
    if (filter.kind !== 'choice') return filter
    const { labels, ...field } = filter
    const options =
      labels === undefined
        ? valuesOf(path, field.name).map((value) => ({ value, label: humanize(value) }))
        : Object.entries(labels).map(([value, label]) => ({ value, label }))
    return { ...field, kind: 'select', options }
  })
}

/** The enum values of a parameter; empty for a free text. */
function valuesOf(path: string, name: string): readonly string[] {
  const lists: Record<string, Record<string, string | readonly string[]>> = LIST_FILTERS
  const values = lists[path]?.[name]
  return typeof values === 'object' ? values : []
}

/** The active filters in the address. */
export function activeFilters(fields: FilterField[], search: AddressSearch): Record<string, string> {
  return pickPresent(
    fields.flatMap((field) => ('name' in field ? [field.name] : [field.from, field.to])),
    search,
  )
}

/** The parameters of the API for the filters in the address. */
export function parametersOf(
  fields: FilterField[],
  search: AddressSearch,
): Record<string, string | undefined> {
  const sent: Record<string, string | undefined> = {}
  for (const field of fields) {
    if (!('toParameters' in field) || field.toParameters === undefined) continue
    const text = search[field.name]?.trim() ?? ''
    if (text !== '') Object.assign(sent, field.toParameters(text))
  }
  const named = fields.filter((field) => !('toParameters' in field))
  return { ...sent, ...activeFilters(named, search) }
}

/** Those of the parameters `names` that the address has and that are not empty. */
export function pickPresent(names: readonly string[], search: AddressSearch): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = search[name]
      return value === undefined || value === '' ? [] : [[name, value]]
    }),
  )
}
