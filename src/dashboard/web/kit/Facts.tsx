// Names and values of a row.
import type { ReactNode } from 'react'
import { Skeleton } from './Skeleton.tsx'

/** Content, or a function that renders it from the row once the row is loaded. */
export type RowContent<T> = ReactNode | ((row: T) => ReactNode)

/** Renders the content for a row. Undefined while the row is loading. */
export function renderFor<T>(content: RowContent<T>, row: T | undefined): ReactNode {
  if (typeof content !== 'function') return content
  return row === undefined ? undefined : (content(row) ?? null)
}

/**
 * Names and values. Functions get the row, e.g. `<Facts of={customer} facts={{ Email: ({ email }) => email }} />`. Null
 * and false are omitted. While the row is loading, each value is a skeleton.
 */
export function Facts<T>({ of, facts }: { of?: T | undefined; facts: Record<string, RowContent<T>> }) {
  return (
    <dl className="facts">
      {Object.entries(facts).map(([name, fact]) => {
        const value = renderFor(fact, of)
        return value === null || value === false ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === undefined ? <Skeleton width={140} /> : value}</dd>
          </div>
        )
      })}
    </dl>
  )
}
