// The page of one row: heading, timeline, facts and metadata.
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Skeleton } from './Skeleton.tsx'
import { ErrorPage } from './ErrorPage.tsx'
import { renderFor, type RowContent } from './Facts.tsx'
import { Id } from './Id.tsx'
import { Json } from './Json.tsx'
import { PageHeader } from './PageHeader.tsx'
import { Status } from './Status.tsx'

/**
 * `label` is the title while the row is loading. `heading` replaces the `title`, e.g. an amount. `description` defaults
 * to the id. `head` is above the two columns, `children` below them. The metadata ends the second column. Functions get
 * the row and render nothing before it is loaded.
 */
export function RowPage<T extends { metadata?: unknown }>({
  query,
  id,
  parent,
  label,
  title,
  heading,
  status,
  description = <Id id={id} />,
  actions,
  head,
  main,
  side,
  children,
}: {
  query: Pick<UseQueryResult<T>, 'data' | 'error' | 'refetch' | 'dataUpdatedAt'>
  id: string
  parent: { to: string; title: string }
  label: string
  title: (row: T) => string
  heading?: (row: T) => ReactNode
  status?: (row: T) => { status: string; resource?: string }
  description?: RowContent<T>
  actions?: (row: T) => ReactNode
  head?: RowContent<T>
  main: RowContent<T>
  side?: RowContent<T>
  children?: RowContent<T>
}) {
  const { data: row, error, refetch } = query
  if (error !== null && row === undefined)
    return <ErrorPage title={label} parent={parent} error={error} retry={refetch} />
  const side_content = renderFor(side, row)
  return (
    <>
      <PageHeader
        title={row === undefined ? label : title(row)}
        heading={row && <Heading text={(heading ?? title)(row)} status={status?.(row)} />}
        parent={parent}
        read={query}
        description={renderFor(description, row)}
        actions={row && actions?.(row)}
      />
      {renderFor(head, row)}
      <div className={head === undefined ? 'columns' : 'columns section'}>
        <div>{renderFor(main, row)}</div>
        <section>
          {side_content}
          <h2 className={side === undefined ? 'side-title' : 'side-title section'}>Metadata</h2>
          {row === undefined ? (
            <Skeleton width="60%" />
          ) : (
            <Json value={row.metadata ?? {}} label="metadata" />
          )}
        </section>
      </div>
      {renderFor(children, row)}
    </>
  )
}

function Heading({
  text,
  status,
}: {
  text: ReactNode
  status: { status: string; resource?: string } | undefined
}) {
  if (status === undefined) return text
  return (
    <span className="inline">
      {text}
      {/* The key restarts the highlight when the status changes. */}
      <span key={status.status} className="highlighted">
        <Status {...status} pill />
      </span>
    </span>
  )
}
