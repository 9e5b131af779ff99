// Facts about one thing, each with its name.
import type { ReactNode } from 'react'
import { Skeleton } from './Bone.tsx'

/** What is shown of a row: the same for each, or made of it once it is there. */
export type RowContent<T> = ReactNode | ((row: T) => ReactNode)

/** Undefined while the row that it is made of is on its way. */
export function renderFor<T>(shown: RowContent<T>, row: T | undefined): ReactNode {
  if (typeof shown !== 'function') return shown
  return row === undefined ? undefined : (shown(row) ?? null)
}

/**
 * Names and values, those in functions made of the row, e.g. `<Facts of={customer} facts={{ Email: ({ email }) => email }} />`.
 * Null and false are left out; while the row is on its way each has its place.
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
