// One verification: of whom, how it stands, what can be decided, and what happened to it.
import { Button } from '@mantine/core'
import { Check, Link2, X } from 'lucide-react'
import { useState } from 'react'
import type { Verification } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { inWords } from '../kit/statuses.ts'
import { FailedPage } from '../kit/FailedPage.tsx'
import { Note } from '../parties/Note.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { TimelineSection } from '../parties/timeline-items.tsx'
import { useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { DecidedBy } from '../verifications/DecidedBy.tsx'
import { DecideDialog, RenewLinkDialog } from '../verifications/dialogs.tsx'
import { decidedBy } from '../verifications/words.ts'

export function VerificationPage() {
  const id = usePathParam('id')
  const path = `/v1/compliance/kyc/${id}` as const
  const { data, error, refetch, dataUpdatedAt } = useAnswer<Verification>(path, undefined, {
    every_ms: 5_000,
  })
  const may_decide = useMay('decideKyc')
  const may_link = useMay('linkKyc')
  const [open, setOpen] = useState<'approve' | 'reject' | 'link'>()
  const close = () => setOpen(undefined)
  const above = { to: '/compliance', title: 'Compliance' }
  if (error !== null && data === undefined)
    return <FailedPage title="Verification" above={above} error={error} retry={refetch} />
  // By hand it is decided once, also over what the provider has decided.
  const decidable = data !== undefined && data.decided_by !== 'manual'
  return (
    <>
      <PageHeader
        title={data === undefined ? 'Verification' : `Verification of a ${data.subject_type}`}
        heading={
          data && (
            <span className="line">
              Verification of <PartyName type={data.subject_type} id={data.subject_id} />
              <Status status={data.status} noun="kyc" pill />
            </span>
          )
        }
        above={above}
        as_of={dataUpdatedAt}
        description={<Id id={id} />}
        actions={
          <>
            {may_link && data?.status === 'requires_input' && (
              <Button leftSection={<Link2 size={14} />} onClick={() => setOpen('link')}>
                Renew link
              </Button>
            )}
            {may_decide && decidable && data.decision !== 'rejected' && (
              <Button leftSection={<X size={14} />} onClick={() => setOpen('reject')}>
                Reject
              </Button>
            )}
            {may_decide && decidable && data.decision !== 'approved' && (
              <Button variant="filled" leftSection={<Check size={14} />} onClick={() => setOpen('approve')}>
                Approve
              </Button>
            )}
          </>
        }
      />
      <div className="columns">
        <div>
          {data && <Note status={data.status}>{sentence(data)}</Note>}
          <TimelineSection path={`${path}/timeline`} />
        </div>
        <section>
          <Facts
            facts={{
              [data === undefined ? 'Who' : inWords(data.subject_type)]: data && (
                <PartyName type={data.subject_type} id={data.subject_id} link />
              ),
              Decision: data && data.decision !== null && inWords(data.decision),
              'Decided by':
                data &&
                data.decided_by !== null &&
                (data.decided_by === 'manual' && data.decided_by_key_id !== null ? (
                  <DecidedBy id={data.decided_by_key_id} />
                ) : (
                  decidedBy(data)
                )),
              Reason: data && data.decision_reason,
              Decided: data && data.decided_at !== null && <Instant at={data.decided_at} />,
              Provider: data?.provider,
              Session:
                data &&
                (data.provider_reference === null ? (
                  '–'
                ) : (
                  <Id id={data.provider_reference} label="session" />
                )),
              'Return address': data && data.return_url,
              Begun: data && <Instant at={data.created_at} />,
              Updated: data && <Instant at={data.updated_at} />,
            }}
          />
          <h2 className="side-title section">Metadata</h2>
          <Json value={data?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      {data !== undefined && (
        <>
          <DecideDialog opened={open === 'approve'} onClose={close} verification={data} decision="approved" />
          <DecideDialog opened={open === 'reject'} onClose={close} verification={data} decision="rejected" />
          <RenewLinkDialog opened={open === 'link'} onClose={close} id={id} />
        </>
      )}
    </>
  )
}

/** How it stands, and what comes next. */
function sentence({ status, failure, decided_by, decision, decision_reason }: Verification): string {
  const wrong = failure === null ? '' : ` ${failure.message}`
  switch (status) {
    case 'pending':
      return 'The provider has not begun. It goes on by itself.'
    case 'requires_input':
      return failure === null
        ? 'It waits for the person to go through the page of the provider. If the link was lost or has expired, renew it.'
        : `The last check failed.${wrong} The person can try again, with a new link; or decide by hand.`
    case 'processing':
      return 'The provider looks at what the person showed. It decides by itself, or you decide by hand.'
    case 'approved':
      return decided_by === 'manual'
        ? `Approved by hand, which is final: ${decision_reason ?? ''}`
        : 'Approved by the provider. You can still reject by hand.'
    default:
      if (decided_by === 'manual') return `Rejected by hand, which is final: ${decision_reason ?? ''}`
      return decision === null
        ? `The provider did not take it.${wrong} Start another verification, or decide by hand.`
        : `Rejected.${wrong} Start another verification, or approve by hand.`
  }
}
