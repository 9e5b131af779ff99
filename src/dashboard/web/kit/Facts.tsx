// Facts about one thing, each with its name.
import type { ReactNode } from 'react'
import { Bone } from './Bone.tsx'

/** What is shown of a row: the same for each, or made of it once it is there. */
export type Shown<T> = ReactNode | ((row: T) => ReactNode)

/** Undefined while the row that it is made of is on its way. */
export function shownOf<T>(shown: Shown<T>, row: T | undefined): ReactNode {
  if (typeof shown !== 'function') return shown
  return row === undefined ? undefined : (shown(row) ?? null)
}

/**
 * Names and values, those in functions made of the row, e.g. `<Facts of={customer} facts={{ Email: ({ email }) => email }} />`.
 * Null and false are left out; while the row is on its way each has its place.
 */
export function Facts<T>({ of, facts }: { of?: T | undefined; facts: Record<string, Shown<T>> }) {
  return (
    <dl className="facts">
      {Object.entries(facts).map(([name, fact]) => {
        const value = shownOf(fact, of)
        return value === null || value === false ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === undefined ? <Bone width={140} /> : value}</dd>
          </div>
        )
      })}
    </dl>
  )
}
