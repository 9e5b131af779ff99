// Facts about one thing, each with its name.
import type { ReactNode } from 'react'
import { Bone } from './Bone.tsx'

/** Names and values, e.g. `{ Email: customer?.email }`; null and false are left out, undefined is still on its way. */
export function Facts({ facts }: { facts: Record<string, ReactNode> }) {
  return (
    <dl className="facts">
      {Object.entries(facts).map(([name, value]) =>
        value === null || value === false ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value === undefined ? <Bone width={140} /> : value}</dd>
          </div>
        ),
      )}
    </dl>
  )
}
