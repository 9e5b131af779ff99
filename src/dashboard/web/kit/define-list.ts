// A list as data: what is read, how it can be filtered, its columns, its file, and what it says while it is empty.
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
/** The paths that answer lists. */
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

/** How a list is shown. */
type ListAppearance<T> = {
  /** The accessible name of the table. */
  label: string
  columns: TableColumn<T>[]
  /** The name of the file that it is exported to; without it there is no export. */
  file?: string
  /** The columns of the file, where they are others. */
  file_columns?: TableColumn<T>[]
  /** The page of a row. */
  to?: (row: T) => string
  /** What is being done to a row (`Retrying`). */
  acting?: (row: T) => string | undefined
  /** False: the list has one page. */
  paged?: boolean
  /** What stands in its place while nothing is there and nothing is filtered. `curl` makes the first row. */
  empty: { title: string; text?: ReactNode; curl?: Curl }
}
/** `key` is the column that tells its rows apart. */
export type ListSpec<T> = ListSource<T> & ListAppearance<T> & { key: keyof T }

/** The list that `path` answers. Its filters are parameters of this path, with all values that they take. */
export function defineList<Path extends ListPath>({
  filters = [],
  ...list
}: { path: Path; key: keyof RowOf<Path>; filters?: FilterOf<NoInfer<Path>>[] } & ListAppearance<
  RowOf<NoInfer<Path>>
> &
  Pick<ListSource<RowOf<NoInfer<Path>>>, 'limit' | 'interval_ms' | 'cursor'>): ListSpec<RowOf<Path>> {
  return { ...list, fields: fieldsOf<Path>(list.path, filters) }
}
