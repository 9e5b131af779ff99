// Proposals of operators: their texts, and the dialogs that create and decide them.
import { useState } from 'react'
import { sendAct, AuditLink } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { Id } from '../kit/Id.tsx'
import { pageOfResource } from '../resources.ts'
import { invalidate } from '../queries.ts'
import { TenantPageLink, type useTenantPage } from './TenantLink.tsx'
import type { ProposalRow } from './shapes.ts'

const refreshLists = () => invalidate('/ops/proposals', '/ops/drifts', '/v1/payouts', '/v1/wallet')

/** The title of a proposal: `Correct -$3.00`, `Fail payout of $7.00`. */
export function proposalTitle(proposal: ProposalRow): string {
  const money = moneyOf(proposal)
  return proposal.kind === 'correction' ? `Correct ${money}` : `Fail payout of ${money}`
}

function moneyOf({ amount_minor, currency }: ProposalRow): string {
  return amount_minor === null || currency === null ? '' : formatMoney(amount_minor, currency)
}

/** The target of a proposal with a link to its page: a payout, or a tenant's balance. */
export function ProposalTarget({
  proposal,
  open,
  short = false,
}: {
  proposal: ProposalRow
  open: ReturnType<typeof useTenantPage>['open']
  /** For tables, where another column names the kind. */
  short?: boolean
}) {
  const { payout_id, currency } = proposal
  const page =
    payout_id === null
      ? { to: '/wallet', label: 'Open balance' }
      : { to: pageOfResource('payout', payout_id), label: 'Open payout' }
  return (
    <div>
      {payout_id === null ? (
        `Balance in ${currency}`
      ) : (
        <>
          {!short && 'Payout '}
          <Id id={payout_id} short={short} label="payout id" />
        </>
      )}{' '}
      <TenantPageLink page={{ of: proposal, ...page }} open={open} />
    </div>
  )
}

/** Proposes to fail a payout without the processor's confirmation. */
export function ForceFailDialog({
  opened,
  onClose,
  payout,
}: {
  opened: boolean
  onClose: () => void
  payout: { id: string; tenant_id: string; amount_minor: number; currency: string }
}) {
  const [reason, setReason] = useState('')
  const money = formatMoney(payout.amount_minor, payout.currency)
  return (
    <ConfirmDialog
      opened={opened}
      onClose={() => {
        onClose()
        setReason('')
      }}
      title={`Propose to force the failure of this payout of ${money}?`}
      action="Propose"
      tone="bad"
      ready={reason.trim() !== ''}
      effect={
        <>
          Another operator must confirm it, under Proposals. Then the payout is failed and {money} is
          available at once, whatever the processor does, and a drift is reported. If the processor pays it
          anyway, the money is taken from the balance, which may become negative.
        </>
      }
      act={() =>
        sendAct('POST', '/ops/proposals', {
          kind: 'fail_payout',
          tenant_id: payout.tenant_id,
          payout_id: payout.id,
          reason: reason.trim(),
        })
      }
      outcome={({ audit_seq }) => (
        <>
          The failure is proposed. Another operator must confirm it under Proposals.{' '}
          <AuditLink of="installation" seq={audit_seq} />
        </>
      )}
      onDone={refreshLists}
    >
      <ReasonField description="Shown as its failure." value={reason} onChange={setReason} />
    </ConfirmDialog>
  )
}

/** The effect of a confirmation. */
function effectOf(proposal: ProposalRow): string {
  const money = moneyOf(proposal)
  return proposal.kind === 'correction'
    ? `The balance of ${proposal.tenant} changes by ${money}, and may become negative.`
    : `The payout is failed and ${money} is available at once, although the processor may still pay it.`
}

/** Confirms or rejects a proposal. Its author can only reject it. */
export function DecideProposalDialog({
  opened,
  onClose,
  decision,
  proposal,
  own,
  open,
}: {
  opened: boolean
  onClose: () => void
  decision: 'confirm' | 'reject'
  proposal: ProposalRow
  own: boolean
  /** Opens the page of the target. */
  open: ReturnType<typeof useTenantPage>['open']
}) {
  const label = proposalTitle(proposal)
  const action = decision === 'confirm' ? 'Confirm' : 'Reject'
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`${action} “${label}” of ${proposal.tenant}?`}
      action={action}
      {...(decision === 'confirm' && { tone: 'bad' as const })}
      effect={
        <>
          <p>
            {decision === 'reject'
              ? `Nothing changes.${own ? ' It is your own proposal: you withdraw it.' : ''}`
              : `${effectOf(proposal)} Proposed by ${proposal.proposed_by}: ${proposal.reason}`}
          </p>
          <ProposalTarget proposal={proposal} open={open} />
        </>
      }
      act={() => sendAct('POST', `/ops/proposals/${proposal.id}/${decision}`)}
      outcome={({ audit_seq }) => (
        <>
          {decision === 'confirm'
            ? 'Confirmed. It is carried out within a second.'
            : own
              ? 'Withdrawn.'
              : 'Rejected.'}{' '}
          <AuditLink of="installation" seq={audit_seq} />
        </>
      )}
      onDone={refreshLists}
    />
  )
}
