// The table of a list: rows that link to their page, paging, and the states empty, loading and failed.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { ChevronLeft, ChevronRight } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { parseAddress, type AddressSearch } from '../address.ts'
import { errorMessage } from '../api.ts'
import { Skeleton } from './Skeleton.tsx'
import { AsOf, Instant } from './Instant.tsx'
import type { TableList } from './list.ts'
import { moveByKey, useOpenedRow } from './row-focus.ts'
import { EmptyState, ErrorState } from './states.tsx'

export type TableColumn<T> = {
  title: string
  cell: (row: T) => ReactNode
  /** For amounts and counts: right-aligned, tabular figures. */
  align?: 'end'
  /** Long text is truncated with an ellipsis. */
  clip?: boolean
  /** The value in the CSV file. Columns without it are not exported. */
  csv?: (row: T) => string | number | null | undefined
}

/**
 * The first column is the row's link, so its cell must not contain another link. Columns with an empty title contain
 * buttons. In a narrow window, the cells of a row are stacked with their headings. `acting` names an act in progress on
 * a row (`Retrying`). `compared` is the part of a row whose changes are highlighted. Default: the row. `label` is the
 * accessible name of the table. `paged` false: the list has one page.
 */
export function DataTable<T>({
  label,
  list,
  columns,
  rowKey,
  to,
  empty,
  acting,
  paged = true,
  compared,
}: {
  label: string
  list: TableList<T>
  columns: TableColumn<T>[]
  rowKey: (row: T) => string
  to?: (row: T) => string
  empty: ReactNode
  acting?: (row: T) => string | undefined
  paged?: boolean
  compared?: (row: T) => unknown
}) {
  const { query, rows } = list
  const changed = useChanged(rows, rowKey, compared)
  const { body, rememberRow } = useOpenedRow(rows !== undefined)
  const is_forbidden = query.error instanceof SluiceError && query.error.status === 403
  if (query.error !== null && (rows === undefined || is_forbidden))
    return <ErrorState error={query.error} retry={query.refetch} />
  if (rows?.length === 0 && list.goPrevious === undefined) return <NoRows list={list} empty={empty} />
  return (
    <div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, even while nothing in it has the focus */}
      <div className="table-frame" tabIndex={rows === undefined || to === undefined ? 0 : undefined}>
        {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- moves between its links */}
        <table
          className="table"
          data-folds
          aria-label={label}
          aria-busy={rows === undefined}
          onKeyDown={moveByKey}
        >
          <TableHead columns={columns} />
          <tbody ref={body}>
            {rows === undefined && <SkeletonRows columns={columns} />}
            {rows?.map((row) => {
              const key = rowKey(row)
              return (
                <TableRow
                  key={key}
                  row={row}
                  columns={columns}
                  link={to && { ...linkOf(to(row)), 'data-row': key, onClick: () => rememberRow(key) }}
                  progress={acting?.(row)}
                  is_changed={changed.has(key)}
                />
              )
            })}
          </tbody>
        </table>
      </div>
      <TableFoot list={list} paged={paged} />
      <ScannedUntil list={list} />
    </div>
  )
}

function TableHead({ columns }: { columns: Pick<TableColumn<never>, 'title' | 'align'>[] }) {
  return (
    <thead>
      <tr>
        {columns.map(({ title, align }) => (
          <th key={title} data-end={align} scope="col">
            {title === '' ? <span className="visually-hidden">Actions</span> : title}
          </th>
        ))}
      </tr>
    </thead>
  )
}

/** `link`: the link of the first cell. `progress`: the act in progress on the row. */
function TableRow<T>({
  row,
  columns,
  link,
  progress,
  is_changed,
}: {
  row: T
  columns: TableColumn<T>[]
  link: { to: string; search: AddressSearch; 'data-row': string; onClick: () => void } | undefined
  progress: string | undefined
  is_changed: boolean
}) {
  return (
    <tr
      data-link={link !== undefined || undefined}
      data-changed={is_changed || undefined}
      data-acting={progress}
      aria-busy={progress !== undefined || undefined}
    >
      {columns.map(({ title, cell, align, clip }, at) => (
        <td
          key={title}
          data-end={align}
          data-clip={clip}
          data-title={at === 0 ? undefined : title || undefined}
          data-acts={title === '' || undefined}
          data-empty={(at > 0 && cell(row) === '–') || undefined}
        >
          {at === 0 && link !== undefined ? (
            <Link {...link} className="row-link">
              {cell(row)}
            </Link>
          ) : (
            cell(row)
          )}
          {at === 0 && progress !== undefined && <span className="dim"> · {progress}</span>}
        </td>
      ))}
    </tr>
  )
}

function NoRows({ list, empty }: { list: TableList<unknown>; empty: ReactNode }) {
  return (
    <>
      {list.scanned_until !== null ? (
        <EmptyState title="No matches so far" />
      ) : list.is_filtered ? (
        <EmptyState title="No rows match these filters" />
      ) : (
        empty
      )}
      <ScannedUntil list={list} />
    </>
  )
}

/** Shows how far a page was searched, for lists that scan a limited number of rows for each page. */
function ScannedUntil({
  list: { rows, scanned_until, goNext },
}: {
  list: Pick<TableList<unknown>, 'rows' | 'scanned_until' | 'goNext'>
}) {
  if (scanned_until === null) return null
  return (
    <p className="dim" role="status">
      Searched back to <Instant at={scanned_until} />. Next continues from there.
      {rows?.length === 0 && goNext !== undefined && (
        <>
          {' '}
          <Button size="compact-xs" onClick={goNext}>
            Search further
          </Button>
        </>
      )}
    </p>
  )
}

function TableFoot({
  list: { query, as_of, goNext, goPrevious },
  paged,
}: {
  list: Pick<TableList<unknown>, 'query' | 'as_of' | 'goNext' | 'goPrevious'>
  paged: boolean
}) {
  const at = as_of === undefined ? query.dataUpdatedAt : Date.parse(as_of ?? '')
  const page = { variant: 'subtle', color: 'gray' } as const
  return (
    <div className="table-foot">
      <span>
        {query.error !== null && `Not refreshed: ${errorMessage(query.error)} `}
        {at > 0 && <AsOf at={at} />}
      </span>
      {paged && (goPrevious ?? goNext) !== undefined && (
        <>
          <Button
            {...page}
            disabled={goPrevious === undefined}
            onClick={goPrevious}
            leftSection={<ChevronLeft size={14} />}
          >
            Previous
          </Button>
          <Button
            {...page}
            disabled={goNext === undefined}
            onClick={goNext}
            rightSection={<ChevronRight size={14} />}
          >
            Next
          </Button>
        </>
      )}
    </div>
  )
}

/** Splits an address into its path and its query. */
function linkOf(address: string): { to: string; search: AddressSearch } {
  const [to = '', query = ''] = address.split('?', 2)
  return { to, search: parseAddress(query) }
}

const WIDTHS = ['70%', '55%', '80%', '62%', '48%', '74%', '58%', '66%']

function SkeletonRows({ columns }: { columns: { title: string }[] }) {
  return WIDTHS.map((first, row) => (
    <tr key={first} aria-hidden>
      {columns.map(({ title }, column) => (
        <td key={title}>
          <Skeleton width={WIDTHS[(row + column * 3) % WIDTHS.length]} />
        </td>
      ))}
    </tr>
  ))
}

/** The keys of rows that were added or changed since the last read of the same page. */
function useChanged<T>(
  rows: T[] | undefined,
  rowKey: (row: T) => string,
  compared: (row: T) => unknown = (row) => row,
): Set<string> {
  const [seen, setSeen] = useState({ rows, changed: new Set<string>() })
  if (seen.rows !== rows)
    setSeen({ rows, changed: difference(seen.rows ?? [], rows ?? [], rowKey, compared) })
  return seen.changed
}

function difference<T>(
  before: T[],
  now: T[],
  rowKey: (row: T) => string,
  compared: (row: T) => unknown,
): Set<string> {
  const previous_rows = new Map(before.map((row) => [rowKey(row), JSON.stringify(compared(row))]))
  if (!now.some((row) => previous_rows.has(rowKey(row)))) return new Set()
  return new Set(
    now.filter((row) => previous_rows.get(rowKey(row)) !== JSON.stringify(compared(row))).map(rowKey),
  )
}
