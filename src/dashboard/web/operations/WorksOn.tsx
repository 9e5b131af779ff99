// The row that a job works on, with its money, and the way to its page in its tenant.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { nounWords, pageOfNoun } from '../nouns.ts'
import { useSession } from '../session.tsx'
import { useChooseTenant } from '../shell/tenant.ts'
import type { JobDetails } from './shapes.ts'

export function WorksOn({ job }: { job: JobDetails | undefined }) {
  const row = job?.works_on
  if (job === undefined || row == null) return null
  const noun = nounWords(row.noun)
  const page = pageOfNoun(row.noun, row.id)
  return (
    <>
      <h2 className="side-title">{noun}</h2>
      <Facts
        facts={{
          Amount:
            row.amount_minor === null || row.currency === null ? null : (
              <strong>
                <Money minor={row.amount_minor} currency={row.currency} />
              </strong>
            ),
          Status: row.status === null ? null : <Status status={row.status} noun={row.noun} />,
          Id: <Id id={row.id} />,
          Reference:
            row.provider_reference === null ? null : <Id id={row.provider_reference} label="reference" />,
          'Idempotency key':
            row.idempotency_key === null ? null : <Id id={row.idempotency_key} label="key" />,
          Postings: job.postings.length === 0 ? null : <Postings postings={job.postings} />,
          Page:
            page === undefined ? null : <InTenant job={job} to={page} words={`Open ${noun.toLowerCase()}`} />,
        }}
      />
    </>
  )
}

/** What was posted for it: to the balance, or from it. */
function Postings({ postings }: Pick<JobDetails, 'postings'>) {
  return postings.map(({ kind, at, added, amount_minor, currency }) => (
    <div key={kind}>
      {inWords(kind)}: <Money minor={added ? amount_minor : -amount_minor} currency={currency} />,{' '}
      <Instant at={at} />
    </div>
  ))
}

/** To the delivery of which a job is an attempt. */
export function DeliveryLink({ job, id }: { job: JobDetails; id: string }) {
  return <InTenant job={job} to={`/webhooks/deliveries/${id}`} words="See the delivery" />
}

/** To a page of the tenant of the job, which may have to be chosen first. */
function InTenant({ job, to, words }: { job: JobDetails; to: string; words: string }) {
  const [going, setGoing] = useState(false)
  const { tenant, tenants } = useSession()
  const choose = useChooseTenant()
  if (tenant?.id === job.tenant_id) return <Link to={to}>{words}</Link>
  const is_member = tenants.some(({ id }) => id === job.tenant_id)
  const whose = job.tenant ?? job.tenant_id
  return (
    <>
      <Button size="compact-sm" onClick={() => (is_member ? void choose(job.tenant_id, to) : setGoing(true))}>
        {words} in {whose}
      </Button>
      <ConfirmDialog
        opened={going}
        onClose={() => setGoing(false)}
        title={`Look at tenant ${whose}?`}
        action="Look at tenant"
        does={`You look at ${whose} as an operator, and what you read is recorded. The banner on each page leads back.`}
        act={() => choose(job.tenant_id, to)}
      />
    </>
  )
}
