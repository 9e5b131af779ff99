// The dialogs of a payment: capture, cancel, refund.
import type { CancelPayment, CreateRefund, Payment } from '#sdk/index.ts'
import { NativeSelect, TextInput } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { sluice } from '../api.ts'
import { actResponse, ActResultText } from '../kit/ActResult.tsx'
import { ConfirmDialog } from '../kit/ConfirmDialog.tsx'
import { formatMoney, stepHint, parseMoney, decimalAmount } from '../kit/amounts.ts'
import { invalidate } from '../queries.ts'
import { processorName, refundableMinor } from './texts.ts'

type ActDialog = { payment: Payment; opened: boolean; onClose: () => void }

const refreshLists = () => invalidate('/v1/payments', '/v1/refunds', '/overview')

/** The amount of a field, from 1 to `max` minor units. Undefined: invalid. */
function useAmount(max: number, currency: string) {
  const [typed, setTyped] = useState<string>()
  const text = typed ?? decimalAmount(max, currency)
  const minor = parseMoney(text, currency, 'payment')
  const fits = minor !== undefined && minor > 0 && minor <= max
  return { text, setTyped, minor: fits ? minor : undefined }
}

function AmountField({
  of: { text, setTyped, minor },
  max,
  currency,
}: {
  of: ReturnType<typeof useAmount>
  max: number
  currency: string
}) {
  return (
    <TextInput
      label="Amount"
      description={`In ${currency}${stepHint(currency, 'payment')}; at most ${formatMoney(max, currency)}.`}
      inputMode="decimal"
      value={text}
      onChange={(event) => setTyped(event.currentTarget.value)}
      error={
        minor === undefined &&
        `Enter an amount of at most ${formatMoney(max, currency)}${stepHint(currency, 'payment')}.`
      }
      data-autofocus
    />
  )
}

export function CaptureDialog({ payment, opened, onClose }: ActDialog) {
  const { id, currency, amount_capturable_minor: on_hold } = payment
  const amount = useAmount(on_hold, currency)
  const minor = amount.minor ?? on_hold
  const money = (some: number) => formatMoney(some, currency)
  const valid = amount.minor !== undefined
  const rest =
    minor < on_hold
      ? ` ${money(on_hold - minor)} is released and cannot be captured later.`
      : ' This captures the full hold.'
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={valid ? `Capture ${money(minor)}?` : 'Capture'}
      action="Capture"
      effect={
        valid
          ? `Capture ${money(minor)} of ${money(on_hold)} on hold at ${processorName(payment.processor)}.${rest}`
          : `${money(on_hold)} is on hold at ${processorName(payment.processor)}.`
      }
      ready={valid}
      act={(idempotency_key) =>
        actResponse(
          sluice.payments.capture(id, minor === on_hold ? {} : { amount_minor: minor }, { idempotency_key }),
        )
      }
      operation={`capture ${id}`}
      onSettled={refreshLists}
      outcome={(result) => (
        <ActResultText of={result}>{money(result.data.amount_captured_minor)} was captured.</ActResultText>
      )}
    >
      <AmountField of={amount} max={on_hold} currency={currency} />
    </ConfirmDialog>
  )
}

const CANCEL_REASONS: Record<NonNullable<CancelPayment['reason']>, string> = {
  requested_by_customer: 'Requested by customer',
  duplicate: 'Duplicate',
  fraudulent: 'Fraudulent',
  abandoned: 'Abandoned',
}

export function CancelDialog({ payment, opened, onClose }: ActDialog) {
  const { id, currency, amount_capturable_minor: on_hold, amount_minor } = payment
  const [reason, setReason] = useState<CancelPayment['reason']>()
  const effect =
    on_hold > 0
      ? `The hold of ${formatMoney(on_hold, currency)} is released at ${processorName(payment.processor)}, and nothing is captured. This cannot be undone.`
      : `The payment of ${formatMoney(amount_minor, currency)} is canceled, and nothing is captured. This cannot be undone.`
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Cancel this payment?"
      action="Cancel payment"
      tone="bad"
      effect={effect}
      act={(idempotency_key) =>
        actResponse(sluice.payments.cancel(id, reason == null ? {} : { reason }, { idempotency_key }))
      }
      operation={`cancel ${id}`}
      onSettled={refreshLists}
      outcome={(result) => <ActResultText of={result}>The payment is canceled.</ActResultText>}
    >
      <ProcessorReasonField reasons={CANCEL_REASONS} value={reason} onChange={setReason} />
    </ConfirmDialog>
  )
}

const REFUND_REASONS: Record<NonNullable<CreateRefund['reason']>, string> = {
  requested_by_customer: 'Requested by customer',
  duplicate: 'Duplicate',
  fraudulent: 'Fraudulent',
}

export function RefundDialog({ payment, opened, onClose }: ActDialog) {
  const { id, currency, amount_captured_minor: captured, amount_refunded_minor: refunded } = payment
  const { amount_refund_pending_minor: pending } = payment
  const refundable = refundableMinor(payment)
  const amount = useAmount(refundable, currency)
  const [reason, setReason] = useState<CreateRefund['reason']>()
  const minor = amount.minor ?? refundable
  const money = (some: number) => formatMoney(some, currency)
  const valid = amount.minor !== undefined
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={valid ? `Refund ${money(minor)}?` : 'Refund'}
      action="Refund"
      tone="bad"
      effect={
        <>
          {valid
            ? `Refund ${money(minor)} of ${money(captured)} to the ${payment.method} that paid; ${money(refundable - minor)} stays captured.`
            : `${money(refundable)} of ${money(captured)} can be refunded to the ${payment.method} that paid.`}
          {refunded > 0 && ` ${money(refunded)} was refunded before.`}
          {pending > 0 && ` ${money(pending)} is being refunded.`}
        </>
      }
      ready={valid}
      act={(idempotency_key) =>
        actResponse(
          sluice.refunds.create(
            id,
            { idempotency_key, amount_minor: minor, ...(reason != null && { reason }) },
            { idempotency_key },
          ),
        )
      }
      operation={`refund ${id}`}
      onSettled={refreshLists}
      outcome={(result) => (
        <ActResultText of={result}>
          {money(result.data.amount_minor)} {result.data.status === 'succeeded' ? 'was' : 'is being'}{' '}
          refunded.{' '}
          <Link to="/refunds/$id" params={{ id: result.data.id }}>
            See the refund
          </Link>
        </ActResultText>
      )}
    >
      <AmountField of={amount} max={refundable} currency={currency} />
      <ProcessorReasonField reasons={REFUND_REASONS} value={reason} onChange={setReason} />
    </ConfirmDialog>
  )
}

/** A reason that the processor accepts. */
function ProcessorReasonField<T extends string>({
  reasons,
  value,
  onChange,
}: {
  reasons: Record<T, string>
  value: T | null | undefined
  onChange: (reason: T | undefined) => void
}) {
  const choices = Object.keys(reasons) as T[]
  return (
    <NativeSelect
      label="Reason"
      description="Sent to the processor too."
      value={value ?? ''}
      onChange={(event) => onChange(choices.find((reason) => reason === event.currentTarget.value))}
      data={[
        { value: '', label: 'None' },
        ...choices.map((reason) => ({ value: reason, label: reasons[reason] })),
      ]}
    />
  )
}
