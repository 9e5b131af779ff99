// The page of one thing: its heading, what happened to it, its facts and its metadata.
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Skeleton } from './Bone.tsx'
import { ErrorPage } from './FailedPage.tsx'
import { renderFor, type RowContent } from './Facts.tsx'
import { Id } from './Id.tsx'
import { Json } from './Json.tsx'
import { PageHeader } from './PageHeader.tsx'
import { Status } from './Status.tsx'

/**
 * `word` is the title while the row is on its way. `heading` stands in place of the `title` where a text is not enough.
 * `description` is the id unless it is given. `head` is above the two columns, `children` below them; the metadata ends
 * the second one. What is a function is made of the row, and not there before it.
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
    <span className="line">
      {text}
      {/* Another status is another element: so it is marked for a moment. */}
      <span key={status.status} className="marked">
        <Status {...status} pill />
      </span>
    </span>
  )
}
