// One verification: its subject, status, decision and timeline.
import { Button } from '@mantine/core'
import { Check, Link2, X } from 'lucide-react'
import type { Verification } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { Facts } from '../kit/Facts.tsx'
import { OptionalId } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { humanize } from '../kit/statuses.ts'
import { StatusNote } from '../parties/StatusNote.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { useAnswer } from '../queries.ts'
import { CompleteVerificationDialog } from '../sandbox/dialogs.tsx'
import { isCompletable } from '../sandbox/acts.ts'
import { SandboxButton } from '../sandbox/SandboxButton.tsx'
import { useMay } from '../session.tsx'
import { RowTimeline } from '../timeline/TimelineSection.tsx'
import { VERIFICATION_TEXTS } from '../timeline/row-texts.ts'
import { DecidedBy } from '../verifications/DecidedBy.tsx'
import { DecideDialog, RenewLinkDialog } from '../verifications/dialogs.tsx'
import { decidedBy, isUndecided } from '../verifications/texts.ts'

type VerificationAct = 'approve' | 'reject' | 'link' | 'complete'

export function VerificationPage() {
  const id = usePathParam('id')
  const path = `/v1/compliance/kyc/${id}` as const
  const query = useAnswer<Verification>(path, undefined, { interval_ms: 5_000 })
  const { begin, props } = useDialogs<VerificationAct>()
  const { data } = query
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/compliance', title: 'Compliance' }}
      label="Verification"
      title={({ subject_type }) => `Verification of a ${subject_type}`}
      heading={({ subject_type, subject_id }) => (
        <>
          Verification of <PartyName type={subject_type} id={subject_id} />
        </>
      )}
      status={({ status }) => ({ status, resource: 'kyc' })}
      actions={(row) => (
        <>
          <SandboxButton
            label="Complete verification"
            allowed={isCompletable(row)}
            begin={() => begin('complete')}
          />
          <Acts verification={row} begin={begin} />
        </>
      )}
      main={
        <>
          {data?.outdated === true && <StatusNote tone="warn">{outdatedText(data)}</StatusNote>}
          {data?.outdated === false && <StatusNote status={data.status}>{summaryOf(data)}</StatusNote>}
          <RowTimeline path={`${path}/timeline`} id={id} at={data?.provider} texts={VERIFICATION_TEXTS} />
        </>
      }
      side={<VerificationFacts of={data} />}
    >
      {(row) => (
        <>
          <DecideDialog {...props('approve')} verification={row} decision="approved" />
          <DecideDialog {...props('reject')} verification={row} decision="rejected" />
          <RenewLinkDialog {...props('link')} id={id} />
          <CompleteVerificationDialog {...props('complete')} verification={row} />
        </>
      )}
    </RowPage>
  )
}

function Acts({
  verification: { status, decided_by, decision, failure, outdated },
  begin,
}: {
  verification: Verification
  begin: (act: VerificationAct) => void
}) {
  const may_decide = useMay('decideKyc')
  const may_link = useMay('linkKyc')
  // A manual decision is final. It may overrule the provider. A decision of an outdated verification would not count.
  const decidable = may_decide && decided_by !== 'manual' && !outdated
  // An undecided verification without a failure waits for the person or the provider, not for an operator.
  const awaits_operator = !isUndecided({ status }) || failure !== null
  return (
    <>
      {may_link && status === 'requires_input' && !outdated && (
        <Button leftSection={<Link2 size={14} />} onClick={() => begin('link')}>
          Renew link
        </Button>
      )}
      {decidable && decision !== 'rejected' && (
        <Button leftSection={<X size={14} />} onClick={() => begin('reject')}>
          Reject
        </Button>
      )}
      {decidable && decision !== 'approved' && (
        <Button
          variant={awaits_operator ? 'filled' : 'default'}
          leftSection={<Check size={14} />}
          onClick={() => begin('approve')}
        >
          Approve
        </Button>
      )}
    </>
  )
}

function VerificationFacts({ of }: { of: Verification | undefined }) {
  return (
    <Facts
      of={of}
      facts={{
        [of === undefined ? 'Subject' : humanize(of.subject_type)]: ({ subject_type, subject_id }) => (
          <PartyName type={subject_type} id={subject_id} link />
        ),
        Decision: ({ decision }) => decision && humanize(decision),
        'Decided by': (row) =>
          row.decided_by === 'manual' && row.decided_by_key_id !== null ? (
            <DecidedBy id={row.decided_by_key_id} />
          ) : (
            row.decided_by && decidedBy(row)
          ),
        Reason: ({ decision_reason }) => decision_reason,
        Decided: ({ decided_at }) => decided_at && <Instant at={decided_at} />,
        Provider: ({ provider }) => provider,
        Session: ({ provider_reference }) => <OptionalId id={provider_reference} label="session" />,
        'Return URL': ({ return_url }) => return_url,
        Started: ({ created_at }) => <Instant at={created_at} />,
        Updated: ({ updated_at }) => <Instant at={updated_at} />,
      }}
    />
  )
}

const outdatedText = ({ subject_type }: Verification) =>
  `Outdated: after a loss of data, the ${subject_type} has other content than this verification was requested for, or a later verification. It does not count. Start another verification.`

/** The status and the next step. */
function summaryOf({ status, failure, decided_by, decision, decision_reason }: Verification): string {
  const failure_text = failure === null ? '' : ` ${failure.message}`
  switch (status) {
    case 'pending':
      return 'The provider has not started the verification yet. You need not do anything.'
    case 'requires_input':
      return failure === null
        ? "The person must complete the provider's page. If the link was lost or has expired, renew it."
        : `The last check failed.${failure_text} The person can try again with a new link, or you can decide by hand.`
    case 'processing':
      return 'The provider is reviewing what the person submitted. It will decide, or you can decide by hand.'
    case 'approved':
      return decided_by === 'manual'
        ? `Approved by hand, which is final: ${decision_reason ?? ''}`
        : 'Approved by the provider. You can still reject by hand.'
    default:
      if (decided_by === 'manual') return `Rejected by hand, which is final: ${decision_reason ?? ''}`
      return decision === null
        ? `The provider did not approve the person.${failure_text} Start another verification, or decide by hand.`
        : `Rejected.${failure_text} Start another verification, or approve by hand.`
  }
}
