// The page of one thing: its heading, what happened to it, its facts and its metadata.
import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Bone } from './Bone.tsx'
import { FailedPage } from './FailedPage.tsx'
import { shownOf, type Shown } from './Facts.tsx'
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
  above,
  word,
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
  above: { to: string; title: string }
  word: string
  title: (row: T) => string
  heading?: (row: T) => ReactNode
  status?: (row: T) => { status: string; noun?: string }
  description?: Shown<T>
  actions?: (row: T) => ReactNode
  head?: Shown<T>
  main: Shown<T>
  side?: Shown<T>
  children?: Shown<T>
}) {
  const { data: row, error, refetch } = query
  if (error !== null && row === undefined)
    return <FailedPage title={word} above={above} error={error} retry={refetch} />
  const beside = shownOf(side, row)
  return (
    <>
      <PageHeader
        title={row === undefined ? word : title(row)}
        heading={row && <Heading text={(heading ?? title)(row)} status={status?.(row)} />}
        above={above}
        read={query}
        description={shownOf(description, row)}
        actions={row && actions?.(row)}
      />
      {shownOf(head, row)}
      <div className={head === undefined ? 'columns' : 'columns section'}>
        <div>{shownOf(main, row)}</div>
        <section>
          {beside}
          <h2 className={side === undefined ? 'side-title' : 'side-title section'}>Metadata</h2>
          {row === undefined ? <Bone width="60%" /> : <Json value={row.metadata ?? {}} label="metadata" />}
        </section>
      </div>
      {shownOf(children, row)}
    </>
  )
}

function Heading({
  text,
  status,
}: {
  text: ReactNode
  status: { status: string; noun?: string } | undefined
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
