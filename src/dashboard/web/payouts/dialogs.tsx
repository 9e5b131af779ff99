// The dialogs that cancel a payout or mark it as failed.
import { useState } from 'react'
import type { Payout } from '#sdk/index.ts'
import { sluice } from '../api.ts'
import { useValueAtOpening } from '../dialogs.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { ReasonField } from '../kit/ReasonField.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { Status } from '../kit/Status.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { invalidate } from '../queries.ts'

type PayoutDialog = { opened: boolean; onClose: () => void; payout: Payout }

const refreshLists = () => invalidate('/v1/payouts', '/v1/wallet')

export function CancelPayoutDialog({ opened, onClose, payout: now }: PayoutDialog) {
  const payout = useValueAtOpening(opened, now)
  const money = formatMoney(payout.amount_minor, payout.currency)
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`Cancel the payout of ${money}?`}
      action="Cancel payout"
      tone="bad"
      effect={
        <>
          {money} to <PartyName type="recipient" id={payout.recipient_id} /> is stopped and becomes available
          again.{' '}
          {payout.status === 'pending'
            ? 'A payout that was not sent yet stops at once. If it is unknown whether it was sent, it stops when that is known.'
            : 'The processor already has it and may be unable to stop it. Then nothing changes.'}
        </>
      }
      act={(idempotency_key) => actResponse(sluice.payouts.cancel(payout.id, {}, { idempotency_key }))}
      operation={`cancel ${payout.id}`}
      onSettled={refreshLists}
      outcome={(result) => (
        <ActResultText of={result}>
          {result.finished && result.data.status === 'canceled' ? (
            <>
              <Status status="canceled" /> {money} is available again.
            </>
          ) : (
            'Your request is recorded. If the processor can still stop the payout, it is canceled.'
          )}
        </ActResultText>
      )}
    />
  )
}

export function FailPayoutDialog({ opened, onClose, payout: now }: PayoutDialog) {
  const payout = useValueAtOpening(opened, now)
  const [reason, setReason] = useState('')
  const money = formatMoney(payout.amount_minor, payout.currency)
  const close = () => {
    onClose()
    setReason('')
  }
  return (
    <ConfirmDialog
      opened={opened}
      onClose={close}
      title={`Mark the payout of ${money} as failed?`}
      action="Mark as failed"
      tone="bad"
      ready={reason.trim() !== ''}
      effect={
        <>
          If it was never sent, it fails at once and {money} is available again. Otherwise the processor is
          requested to stop it, and {money} to <PartyName type="recipient" id={payout.recipient_id} /> stays
          reserved until the processor confirms that it pays nothing. If the processor pays it anyway, it
          becomes paid. This cannot be undone.
        </>
      }
      act={(idempotency_key) =>
        actResponse(sluice.payouts.fail(payout.id, { reason: reason.trim() }, { idempotency_key }))
      }
      operation={`fail ${payout.id}`}
      onSettled={refreshLists}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {result.data.status === 'failed' ? (
            <>
              <Status status="failed" /> {money} is available again.
            </>
          ) : (
            'Your request is recorded. The payout fails when the processor confirms that it pays nothing.'
          )}
        </ActResultText>
      )}
    >
      {(errorOf) => (
        <ReasonField
          description="Shown as its failure."
          value={reason}
          error={errorOf('reason')}
          onChange={setReason}
        />
      )}
    </ConfirmDialog>
  )
}
