// The page of a list: heading, filters, rows and CSV export.
import type { ReactNode } from 'react'
import { CsvExport } from './CsvExport.tsx'
import { DataTable } from './DataTable.tsx'
import type { ListSpec } from './define-list.ts'
import { Filters } from './Filters.tsx'
import { useList, type ListState, type TableList } from './list.ts'
import { PageHeader } from './PageHeader.tsx'
import { EmptyState } from './states.tsx'

/**
 * `above_rows` is shown between the filters and the rows. `row_acts` are the buttons of a row. `empty_action` creates
 * the first row.
 */
type ListSlots<T> = {
  of: ListSpec<T>
  above_rows?: ReactNode
  row_acts?: (row: T) => ReactNode
  empty_action?: ReactNode
}
/** `id` replaces `{id}` in the path. Pages that read the list themselves pass `list` and `exported`. */
type ListViewProps<T> = ListSlots<T> & {
  id?: string
  list?: TableList<T>
  exported?: Pick<ListState<T>, 'path' | 'filters'> | undefined
}

/** `frame` wraps the list, e.g. in tabs. `children` follow the list, e.g. dialogs. */
export function ListPage<T>({
  title,
  description,
  parent,
  actions,
  frame = (list) => list,
  children,
  ...view
}: ListViewProps<T> & {
  title: string
  description: string
  parent?: { to: string; title: string }
  actions?: ReactNode
  frame?: (list: ReactNode) => ReactNode
  children?: ReactNode
}) {
  return (
    <>
      <PageHeader title={title} description={description} parent={parent} actions={actions} />
      {frame(<ListView {...view} />)}
      {children}
    </>
  )
}

/** A list within a page that has its own heading. */
export function ListView<T>({ list, exported, id, ...slots }: ListViewProps<T>) {
  if (list === undefined) return <QueriedList {...slots} id={id} />
  return <ListTable {...slots} list={list} exported={exported} />
}

function QueriedList<T>({ id, ...slots }: ListSlots<T> & { id: string | undefined }) {
  const list = useList(slots.of, { id })
  return <ListTable {...slots} list={list} exported={list} />
}

function ListTable<T>({
  of: { label, fields, columns, file, file_columns = columns, key, to, acting, paged, empty },
  list,
  exported,
  above_rows,
  row_acts,
  empty_action,
}: ListSlots<T> & { list: TableList<T>; exported: ListViewProps<T>['exported'] }) {
  const acts = row_acts === undefined ? [] : [{ title: '', align: 'end' as const, cell: row_acts }]
  return (
    <>
      {fields.length > 0 && (
        <Filters
          fields={fields}
          end={
            file === undefined || exported === undefined ? undefined : (
              <CsvExport list={exported} columns={file_columns} name={file} />
            )
          }
        />
      )}
      {above_rows}
      <DataTable
        label={label}
        list={list}
        columns={[...columns, ...acts]}
        rowKey={(row) => String(row[key])}
        to={to}
        acting={acting}
        paged={paged}
        empty={
          <EmptyState title={empty.title} curl={empty.curl} action={empty_action}>
            {empty.text}
          </EmptyState>
        }
      />
    </>
  )
}
