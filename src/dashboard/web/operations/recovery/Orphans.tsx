// Objects of ours at the providers that have no row and cannot get one without an operator.
import { Link } from '@tanstack/react-router'
import { useAnswer } from '../../queries.ts'
import { resourceLabel } from '../../resources.ts'
import type { DriftRow } from '../shapes.ts'

const SHOWN = 5
/** The tenant of orphans whose tenant is not known. */
const SYSTEM_TENANT_ID = '00000000-0000-7000-8000-000000000000'

export function Orphans() {
  const { data = [] } = useAnswer<DriftRow[]>(
    '/ops/drifts',
    { state: 'orphan', limit: SHOWN + 1 },
    { interval_ms: 10_000 },
  )
  if (data.length === 0) return null
  return (
    <section className="section">
      <h2>What could not be recovered</h2>
      <p className="dim recovery-note">
        Retry the parked notification once what is missing exists again, or discard it to ignore the object.{' '}
        <Link to="/ops/drifts" search={{ state: 'orphan' }}>
          {data.length > SHOWN ? 'See all orphans' : 'See the orphans'}
        </Link>
      </p>
      <ul className="repeat-list" aria-label="Orphans">
        {data.slice(0, SHOWN).map(({ id, subject, tenant, tenant_id, detail }) => (
          <li key={id}>
            <strong>
              {resourceLabel(subject)}
              {tenant_id !== SYSTEM_TENANT_ID && ` of ${tenant}`}
            </strong>
            <span className="dim">{detail}</span>
          </li>
        ))}
      </ul>
    </section>
  )
}
