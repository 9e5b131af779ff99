// Definitions of lists: path, filters, columns, CSV file and empty state.
import type { ReactNode } from 'react'
import type { Answers } from '../generated/answers.ts'
import type { Curl } from './curl.ts'
import type { TableColumn } from './DataTable.tsx'
import { fieldsOf, type FilterOf } from './filter-fields.ts'
import type { ListSource } from './list.ts'

type RowsOf<Answer> = Answer extends { items: (infer Row)[] }
  ? Row
  : Answer extends (infer Row)[]
    ? Row
    : never
/** Paths whose response is a list. */
type ListPath = {
  [Route in keyof Answers]: Route extends `GET ${infer Path}`
    ? [RowsOf<Answers[Route]>] extends [never]
      ? never
      : Path
    : never
}[keyof Answers]
type RowOf<Path extends ListPath> = `GET ${Path}` extends infer Route extends keyof Answers
  ? RowsOf<Answers[Route]>
  : never

/** The presentation of a list. */
type ListAppearance<T> = {
  /** The accessible name of the table. */
  label: string
  columns: TableColumn<T>[]
  /** The name of the CSV file. Without it there is no export. */
  file?: string
  /** The columns of the file. Default: the columns of the table. */
  file_columns?: TableColumn<T>[]
  /** The address of a row's page. */
  to?: (row: T) => string
  /** The act in progress on a row (`Retrying`). */
  acting?: (row: T) => string | undefined
  /** False: the list has one page. */
  paged?: boolean
  /** The empty state of an unfiltered list. `curl` creates the first row. */
  empty: { title: string; text?: ReactNode; curl?: Curl }
}
/** `key` is the field that identifies a row. */
export type ListSpec<T> = ListSource<T> & ListAppearance<T> & { key: keyof T }

/** Defines the list at `path`. `filters` are filters by parameters of this path. */
export function defineList<Path extends ListPath>({
  filters = [],
  ...list
}: { path: Path; key: keyof RowOf<Path>; filters?: FilterOf<NoInfer<Path>>[] } & ListAppearance<
  RowOf<NoInfer<Path>>
> &
  Pick<ListSource<RowOf<NoInfer<Path>>>, 'limit' | 'interval_ms' | 'cursor'>): ListSpec<RowOf<Path>> {
  return { ...list, fields: fieldsOf<Path>(list.path, filters) }
}
