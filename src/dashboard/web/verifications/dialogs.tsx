// The dialogs that decide a verification by hand, and that renew its link.
import { useState } from 'react'
import type { KycDecision, Verification } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { invalidate } from '../queries.ts'
import { PersonLink } from './PersonLink.tsx'
import { isUndecided } from './texts.ts'

const refreshLists = () => invalidate('/v1/compliance', '/v1/customers', '/v1/recipients', '/v1/merchants')

export function DecideDialog({
  opened,
  onClose,
  verification,
  decision,
}: {
  opened: boolean
  onClose: () => void
  verification: Verification
  decision: KycDecision
}) {
  const [reason, setReason] = useState('')
  const { id, subject_type, subject_id, decided_by, decision: before, status } = verification
  const approves = decision === 'approved'
  const close = () => {
    onClose()
    setReason('')
  }
  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title={approves ? 'Approve this verification?' : 'Reject this verification?'}
      action={approves ? 'Approve' : 'Reject'}
      {...(approves ? {} : { tone: 'bad' as const })}
      ready={reason.trim() !== ''}
      effect={
        <>
          The {subject_type} <PartyName type={subject_type} id={subject_id} /> is {decision} at once, and this
          is final: a verification can be decided by hand only once.{' '}
          {decided_by === 'provider' &&
            before !== null &&
            `This replaces the provider's decision: ${before}. `}
          {isUndecided({ status }) && 'A session that still waits for the person is canceled. '}
          {!approves && subject_type === 'recipient' && 'New payouts to the recipient are refused.'}
        </>
      }
      act={(idempotency_key) =>
        actResponse(
          sluice.compliance.kyc.decide(id, { decision, reason: reason.trim() }, { idempotency_key }),
        )
      }
      onDone={refreshLists}
      outcome={(result) => (
        <ActResultText of={result}>
          <Status status={result.data.status} resource="kyc" /> {result.data.decision_reason}
        </ActResultText>
      )}
    >
      {(errorOf) => (
        <ReasonField
          description="Stored with the decision."
          value={reason}
          error={errorOf('reason')}
          onChange={setReason}
        />
      )}
    </ConfirmDialog>
  )
}

export function RenewLinkDialog({
  opened,
  onClose,
  id,
}: {
  opened: boolean
  onClose: () => void
  id: string
}) {
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Renew the link?"
      action="Renew link"
      effect="Requests a new link for the person from the provider, if the last one was used, lost or has expired. The new link is shown once and works for one visit within 48 hours."
      act={(idempotency_key) => actResponse(sluice.compliance.kyc.link(id, {}, { idempotency_key }))}
      shown_once
      onDone={refreshLists}
      outcome={(result) => (
        <ActResultText of={result}>
          <PersonLink url={result.data.url} done={result.finished} />
        </ActResultText>
      )}
    />
  )
}
