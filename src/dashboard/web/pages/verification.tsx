// One verification: of whom, how it stands, what can be decided, and what happened to it.
import { Button } from '@mantine/core'
import { Check, Link2, X } from 'lucide-react'
import type { Verification } from '#sdk/index.ts'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { Facts } from '../kit/Facts.tsx'
import { MaybeId } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { inWords } from '../kit/statuses.ts'
import { Note } from '../parties/Note.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { useAnswer } from '../queries.ts'
import { useMay } from '../session.tsx'
import { RowTimeline } from '../timeline/TimelineSection.tsx'
import { VERIFICATION_WORDS } from '../timeline/row-words.ts'
import { DecidedBy } from '../verifications/DecidedBy.tsx'
import { DecideDialog, RenewLinkDialog } from '../verifications/dialogs.tsx'
import { decidedBy, isUndecided } from '../verifications/words.ts'

type VerificationAct = 'approve' | 'reject' | 'link'

export function VerificationPage() {
  const id = usePathParam('id')
  const path = `/v1/compliance/kyc/${id}` as const
  const query = useAnswer<Verification>(path, undefined, { every_ms: 5_000 })
  const { begin, props } = useDialogs<VerificationAct>()
  const { data } = query
  return (
    <RowPage
      query={query}
      id={id}
      above={{ to: '/compliance', title: 'Compliance' }}
      word="Verification"
      title={({ subject_type }) => `Verification of a ${subject_type}`}
      heading={({ subject_type, subject_id }) => (
        <>
          Verification of <PartyName type={subject_type} id={subject_id} />
        </>
      )}
      status={({ status }) => ({ status, noun: 'kyc' })}
      actions={(row) => <Acts verification={row} begin={begin} />}
      main={
        <>
          {data && <Note status={data.status}>{sentence(data)}</Note>}
          <RowTimeline path={`${path}/timeline`} id={id} at={data?.provider} words={VERIFICATION_WORDS} />
        </>
      }
      side={<VerificationFacts of={data} />}
    >
      {(row) => (
        <>
          <DecideDialog {...props('approve')} verification={row} decision="approved" />
          <DecideDialog {...props('reject')} verification={row} decision="rejected" />
          <RenewLinkDialog {...props('link')} id={id} />
        </>
      )}
    </RowPage>
  )
}

function Acts({
  verification: { status, decided_by, decision, failure },
  begin,
}: {
  verification: Verification
  begin: (act: VerificationAct) => void
}) {
  const may_decide = useMay('decideKyc')
  const may_link = useMay('linkKyc')
  // By hand it is decided once, also over what the provider has decided.
  const decidable = may_decide && decided_by !== 'manual'
  // Until a check has failed, it waits for the person or the provider.
  const waits_for_us = !isUndecided({ status }) || failure !== null
  return (
    <>
      {may_link && status === 'requires_input' && (
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
          variant={waits_for_us ? 'filled' : 'default'}
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
        [of === undefined ? 'Subject' : inWords(of.subject_type)]: ({ subject_type, subject_id }) => (
          <PartyName type={subject_type} id={subject_id} link />
        ),
        Decision: ({ decision }) => decision && inWords(decision),
        'Decided by': (row) =>
          row.decided_by === 'manual' && row.decided_by_key_id !== null ? (
            <DecidedBy id={row.decided_by_key_id} />
          ) : (
            row.decided_by && decidedBy(row)
          ),
        Reason: ({ decision_reason }) => decision_reason,
        Decided: ({ decided_at }) => decided_at && <Instant at={decided_at} />,
        Provider: ({ provider }) => provider,
        Session: ({ provider_reference }) => <MaybeId id={provider_reference} label="session" />,
        'Return URL': ({ return_url }) => return_url,
        Started: ({ created_at }) => <Instant at={created_at} />,
        Updated: ({ updated_at }) => <Instant at={updated_at} />,
      }}
    />
  )
}

/** How it stands, and what comes next. */
function sentence({ status, failure, decided_by, decision, decision_reason }: Verification): string {
  const wrong = failure === null ? '' : ` ${failure.message}`
  switch (status) {
    case 'pending':
      return 'The provider has not started yet. You need not do anything.'
    case 'requires_input':
      return failure === null
        ? "It waits for the person to complete the provider's page. If the link was lost or has expired, renew it."
        : `The last check failed.${wrong} The person can try again with a new link, or you can decide by hand.`
    case 'processing':
      return 'The provider is reviewing what the person submitted. It will decide, or you can decide by hand.'
    case 'approved':
      return decided_by === 'manual'
        ? `Approved by hand, which is final: ${decision_reason ?? ''}`
        : 'Approved by the provider. You can still reject by hand.'
    default:
      if (decided_by === 'manual') return `Rejected by hand, which is final: ${decision_reason ?? ''}`
      return decision === null
        ? `The provider did not accept it.${wrong} Start another verification, or decide by hand.`
        : `Rejected.${wrong} Start another verification, or approve by hand.`
  }
}
