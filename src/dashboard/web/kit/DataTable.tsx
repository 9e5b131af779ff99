// A table of a list: each row a link to its page, with pages, and with all that a table may show instead of rows.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { ChevronLeft, ChevronRight } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { parseAddress, type AddressSearch } from '../address.ts'
import { errorMessage } from '../api.ts'
import { Skeleton } from './Bone.tsx'
import { AsOf, Instant } from './Instant.tsx'
import type { TableList } from './list.ts'
import { moveByKey, useOpenedRow } from './row-focus.ts'
import { EmptyState, ErrorState } from './states.tsx'

export type TableColumn<T> = {
  title: string
  cell: (row: T) => ReactNode
  /** For amounts and counts: right-aligned, tabular figures. */
  align?: 'end'
  /** Cut with dots where it is too long. */
  clip?: boolean
  /** In a file; left out, the column is in none. */
  csv?: (row: T) => string | number | null | undefined
}

/**
 * The first column is the link of the row, named by what it shows, so it may hold no other. Columns with an empty title
 * are for buttons. In a narrow window the cells of a row stand below each other with their headings. `acting` says what is
 * being done to a row (`Retrying`). `marked` is the part of a row whose changes are marked. Default: all of it. `label` is
 * the table's accessible name. `paged` false: the list has one page.
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
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also while nothing in it has the focus */}
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
            {title === '' ? <span className="heard">Actions</span> : title}
          </th>
        ))}
      </tr>
    </thead>
  )
}

/** `link` is what the first cell links to. `under_way` is what is being done to the row. */
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
        <EmptyState title="None in what was looked at" />
      ) : list.is_filtered ? (
        <EmptyState title="Nothing matches these filters" />
      ) : (
        empty
      )}
      <ScannedUntil list={list} />
    </>
  )
}

/** Of a list that looks at so many rows for a page, whether they match or not. */
function ScannedUntil({
  list: { rows, scanned_until, goNext },
}: {
  list: Pick<TableList<unknown>, 'rows' | 'scanned_until' | 'goNext'>
}) {
  if (scanned_until === null) return null
  return (
    <p className="dim" role="status">
      Looked until <Instant at={scanned_until} />. Next goes on from there.
      {rows?.length === 0 && goNext !== undefined && (
        <>
          {' '}
          <Button size="compact-xs" onClick={goNext}>
            Look further
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

/** An address, which may have a query. */
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

/** The rows that came or changed when this page of the list was last read; of another page, none. */
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
