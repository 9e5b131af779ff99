// The resource of a job, with its money and a link to its page.
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { Status } from '../kit/Status.tsx'
import { humanize } from '../kit/statuses.ts'
import { resourceLabel, pageOfResource } from '../resources.ts'
import { TenantLink } from './TenantLink.tsx'
import type { JobDetails } from './shapes.ts'

export function JobResource({ job }: { job: JobDetails | undefined }) {
  const row = job?.works_on
  if (job === undefined || row == null) return null
  const resource = resourceLabel(row.resource)
  const page = pageOfResource(row.resource, row.id)
  return (
    <>
      <h2 className="side-title">{resource}</h2>
      <Facts
        facts={{
          Amount:
            row.amount_minor === null || row.currency === null ? null : (
              <strong>
                <Money minor={row.amount_minor} currency={row.currency} />
              </strong>
            ),
          Status: row.status === null ? null : <Status status={row.status} resource={row.resource} />,
          Id: <Id id={row.id} />,
          Reference:
            row.provider_reference === null ? null : <Id id={row.provider_reference} label="reference" />,
          'Idempotency key':
            row.idempotency_key === null ? null : <Id id={row.idempotency_key} label="key" />,
          Postings: job.postings.length === 0 ? null : <Postings postings={job.postings} />,
          Page:
            page === undefined ? null : (
              <TenantLink of={job} to={page} label={`Open ${resource.toLowerCase()}`} />
            ),
        }}
      />
    </>
  )
}

/** Postings of the resource: amounts that were credited to the balance or debited from it. */
function Postings({ postings }: Pick<JobDetails, 'postings'>) {
  return postings.map(({ kind, at, added, amount_minor, currency }) => (
    <div key={kind}>
      {humanize(kind)}: <Money minor={added ? amount_minor : -amount_minor} currency={currency} />,{' '}
      <Instant at={at} />
    </div>
  ))
}

/** A link to the delivery that a job attempts. */
export function DeliveryLink({ job, id }: { job: JobDetails; id: string }) {
  return <TenantLink of={job} to={`/webhooks/deliveries/${id}`} label="See the delivery" />
}
