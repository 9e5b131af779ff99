// The dialogs of the sandbox: pay and dispute a payment, fail a payout, complete a verification, answer an SMS.
import { NativeSelect, Textarea } from '@mantine/core'
import { useState } from 'react'
import type { Payment, Payout, Verification } from '#sdk/index.ts'
import { useValueAtOpening } from '../dialogs.ts'
import { ActResultText, sendAct, type ActResponse } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { formatMoney } from '../kit/amounts.ts'
import { PartyName } from '../parties/PartyName.tsx'
import { refundableMinor } from '../payments/texts.ts'
import { invalidate } from '../queries.ts'

type SandboxDialog = { opened: boolean; onClose: () => void }

const MAX_SMS_CHARACTERS = 1600
const UNKNOWN_ACT =
  'It is unknown whether the sandbox received this. Look at the status before you repeat it.'

const OUTCOMES = [
  { value: 'succeeded', label: 'The buyer enters a card, or authenticates' },
  { value: 'failed', label: 'The card is declined, or the authentication fails' },
]

export function AuthenticateDialog({ payment, ...dialog }: SandboxDialog & { payment: Payment }) {
  const [outcome, setOutcome] = useState('succeeded')
  const money = formatMoney(payment.amount_minor, payment.currency)
  const succeeds = outcome === 'succeeded'
  return (
    <ConfirmDialog
      {...dialog}
      title={succeeds ? `Pay ${money} as the buyer?` : `Fail the payment of ${money} as the buyer?`}
      action={succeeds ? 'Pay' : 'Fail payment'}
      effect="The payment waits for its buyer: for a card, or for the answer to the bank. You do it, and the payment is authorized or fails."
      act={() => sendAct('POST', `/sandbox/payments/${payment.id}/authenticate`, { outcome })}
      unknown={UNKNOWN_ACT}
      onSettled={() => invalidate('/v1/payments', '/timelines')}
      outcome={(result) => <SandboxActOutcome of={result} done="The buyer answered" />}
    >
      <NativeSelect
        label="Outcome"
        data={OUTCOMES}
        value={outcome}
        onChange={(event) => setOutcome(event.currentTarget.value)}
        data-autofocus
      />
    </ConfirmDialog>
  )
}

export function DisputeDialog({ payment, ...dialog }: SandboxDialog & { payment: Payment }) {
  const money = formatMoney(refundableMinor(payment), payment.currency)
  return (
    <ConfirmDialog
      {...dialog}
      title={`Dispute the payment of ${money}?`}
      action="Dispute"
      tone="bad"
      effect={`The buyer's bank asks for the money back. ${money} leaves the balance of test mode until the dispute is won.`}
      act={() => sendAct('POST', `/sandbox/payments/${payment.id}/dispute`)}
      unknown={UNKNOWN_ACT}
      onSettled={() => invalidate('/v1/payments', '/v1/disputes', '/v1/wallet', '/timelines')}
      outcome={(result) => <SandboxActOutcome of={result} done="The bank disputed the payment" />}
    />
  )
}

export function FailPayoutInSandboxDialog({ payout: now, ...dialog }: SandboxDialog & { payout: Payout }) {
  const payout = useValueAtOpening(dialog.opened, now)
  const money = formatMoney(payout.amount_minor, payout.currency)
  return (
    <ConfirmDialog
      {...dialog}
      title={`Fail the payout of ${money}?`}
      action="Fail payout"
      tone="bad"
      effect={
        payout.status === 'paid'
          ? `The recipient's bank returns the payout. ${money} is in the balance of test mode again.`
          : `The recipient's bank refuses the payout. ${money} is available in test mode again.`
      }
      act={() => sendAct('POST', `/sandbox/payouts/${payout.id}/fail`)}
      unknown={UNKNOWN_ACT}
      onSettled={() => invalidate('/v1/payouts', '/v1/wallet', '/timelines')}
      outcome={(result) => <SandboxActOutcome of={result} done="The bank refused the payout" />}
    />
  )
}

const CHECKS = [
  { value: 'succeeded', label: 'The check succeeds' },
  { value: 'failed', label: 'The check fails' },
]

export function CompleteVerificationDialog({
  verification,
  ...dialog
}: SandboxDialog & { verification: Verification }) {
  const [outcome, setOutcome] = useState('succeeded')
  const { id, subject_type, subject_id } = verification
  return (
    <ConfirmDialog
      {...dialog}
      title="Complete the verification as its person?"
      action="Complete verification"
      effect={
        <>
          You submit the document of <PartyName type={subject_type} id={subject_id} />.{' '}
          {outcome === 'succeeded'
            ? 'The provider accepts it, and the verification is approved.'
            : 'The provider refuses it, and the verification waits for the person again, with the reason.'}
        </>
      }
      act={() => sendAct('POST', `/sandbox/kyc/${id}/complete`, { outcome })}
      unknown={UNKNOWN_ACT}
      onSettled={() =>
        invalidate('/v1/compliance', '/v1/customers', '/v1/recipients', '/v1/merchants', '/timelines')
      }
      outcome={(result) => <SandboxActOutcome of={result} done="The provider checked the document" />}
    >
      <NativeSelect
        label="Outcome"
        data={CHECKS}
        value={outcome}
        onChange={(event) => setOutcome(event.currentTarget.value)}
        data-autofocus
      />
    </ConfirmDialog>
  )
}

/** `id`: the id of the SMS in the inbox. `phone`: the number that received it. */
export function ReplyDialog({ id, phone, ...dialog }: SandboxDialog & { id: string; phone: string }) {
  const [text, setText] = useState('')
  return (
    <ConfirmDialog
      {...dialog}
      title={`Answer as ${phone}?`}
      action="Send answer"
      effect="The answer arrives like an SMS from this phone. STOP opts the number out, START opts it in again."
      ready={text.trim() !== ''}
      missing="Enter a text."
      act={() => sendAct('POST', `/sandbox/messages/${id}/reply`, { text: text.trim() })}
      unknown={UNKNOWN_ACT}
      onSettled={() => invalidate('/v1/messages', '/sandbox/messages')}
      outcome={(result) => <SandboxActOutcome of={result} done="The phone sent the answer" />}
    >
      {(errorOf) => (
        <Textarea
          label="Text"
          autosize
          minRows={2}
          maxLength={MAX_SMS_CHARACTERS}
          value={text}
          error={errorOf('text')}
          onChange={(event) => setText(event.currentTarget.value)}
          data-autofocus
        />
      )}
    </ConfirmDialog>
  )
}

/** `done`: what the sandbox did. The notification about it arrives soon after. */
function SandboxActOutcome({ of, done }: { of: ActResponse<unknown>; done: string }) {
  return (
    <ActResultText of={of}>
      {done}. The status changes when the notification about it is applied.
    </ActResultText>
  )
}
