// One payment: its status, acts, details, refunds, disputes and timeline.
import type { Payment } from '#sdk/index.ts'
import { Button } from '@mantine/core'
import { useCallback, useMemo, useState } from 'react'
import { usePathParam } from '../address.ts'
import { useDialogs } from '../dialogs.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id, OptionalId } from '../kit/Id.tsx'
import { ProcessorDeadline } from '../kit/Deadline.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Money } from '../kit/Money.tsx'
import { RowPage } from '../kit/RowPage.tsx'
import { PartyName } from '../parties/PartyName.tsx'
import { CancelDialog, CaptureDialog, RefundDialog } from '../payments/dialogs.tsx'
import { PaymentOutlook } from '../payments/outlook.tsx'
import { PaymentDisputes, PaymentRefunds } from '../payments/parts.tsx'
import { usePaymentTimeline } from '../payments/timeline.ts'
import { PaymentTimeline } from '../payments/PaymentTimeline.tsx'
import { bankHasMoney, moneyOf, processorName, refundableMinor } from '../payments/texts.ts'
import type { PaymentSandboxAct } from '../sandbox/acts.ts'
import { SandboxPaymentButtons, SandboxPaymentDialogs } from '../sandbox/PaymentActs.tsx'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'

type PaymentAct = 'Capture' | 'Cancel' | 'Refund'

export function PaymentPage() {
  const id = usePathParam('id')
  const { payment: query, timeline } = usePaymentTimeline(id)
  const payment = query.data
  const acts = useActs(payment)
  const { opening, begin: open, props } = useDialogs<PaymentAct | PaymentSandboxAct>()
  // An open dialog keeps the payment as it was when the dialog opened.
  const [about, setAbout] = useState<Payment>()
  const begin = useCallback(
    (act: PaymentAct | PaymentSandboxAct) => {
      setAbout(payment)
      open(act)
    },
    [payment, open],
  )
  usePaletteActs(
    useMemo(() => acts.map((act) => ({ title: `${act} payment`, run: () => begin(act) })), [acts, begin]),
  )
  return (
    <RowPage
      query={query}
      id={id}
      parent={{ to: '/payments', title: 'Payments' }}
      label="Payment"
      title={(row) => `Payment of ${moneyOf(row)}`}
      heading={({ amount_minor, currency }) => <Money minor={amount_minor} currency={currency} />}
      status={({ status }) => ({ status })}
      description={
        payment === undefined ? <Skeleton width={200} /> : (payment.description ?? 'No description')
      }
      actions={(row) => (
        <>
          <SandboxPaymentButtons payment={row} begin={begin} />
          {acts.map((act, at) => (
            <Button key={act} variant={at === 0 ? 'filled' : 'default'} onClick={() => begin(act)}>
              {act}
            </Button>
          ))}
        </>
      )}
      head={
        payment === undefined ? (
          <div className="outlook">
            <Skeleton width="60%" />
          </div>
        ) : (
          <PaymentOutlook payment={payment} timeline={timeline.data} />
        )
      }
      main={<PaymentFacts payment={payment} id={id} />}
    >
      <PaymentRefunds refunds={timeline.data?.refunds} />
      <PaymentDisputes disputes={timeline.data?.disputes} />
      <PaymentTimeline payment={payment} timeline={timeline} />
      {about && (
        <div key={opening}>
          <CaptureDialog payment={about} {...props('Capture')} />
          <CancelDialog payment={about} {...props('Cancel')} />
          <RefundDialog payment={about} {...props('Refund')} />
          <SandboxPaymentDialogs payment={about} props={props} />
        </div>
      )}
    </RowPage>
  )
}

/** The acts that the payment's status and the user's role allow. */
function useActs(payment: Payment | undefined): PaymentAct[] {
  const [may_capture, may_cancel, may_refund] = [
    useMay('capturePayment'),
    useMay('cancelPayment'),
    useMay('createRefund'),
  ]
  const status = payment?.status
  const is_capturable = may_capture && status === 'authorized'
  const is_cancelable =
    may_cancel && (status === 'authorized' || status === 'requires_action' || status === 'pending')
  const is_refundable =
    may_refund &&
    payment !== undefined &&
    status === 'captured' &&
    refundableMinor(payment) > 0 &&
    !bankHasMoney(payment)
  return useMemo(
    () => [
      ...(is_capturable ? (['Capture'] as const) : []),
      ...(is_cancelable ? (['Cancel'] as const) : []),
      ...(is_refundable ? (['Refund'] as const) : []),
    ],
    [is_capturable, is_cancelable, is_refundable],
  )
}

function PaymentFacts({ payment, id }: { payment: Payment | undefined; id: string }) {
  return (
    <Facts
      of={payment}
      facts={{
        'On hold': ({ amount_capturable_minor, currency }) =>
          amount_capturable_minor > 0 && <Money minor={amount_capturable_minor} currency={currency} />,
        'Capture before': ({ status, capture_before }) =>
          status === 'authorized' && <ProcessorDeadline at={capture_before} />,
        Captured: ({ amount_captured_minor, currency, captured_at }) =>
          amount_captured_minor > 0 && (
            <span>
              <Money minor={amount_captured_minor} currency={currency} />, <Instant at={captured_at} />
            </span>
          ),
        Refunded: ({ amount_refunded_minor, currency }) =>
          amount_refunded_minor > 0 && <Money minor={amount_refunded_minor} currency={currency} />,
        'Being refunded': ({ amount_refund_pending_minor, currency }) =>
          amount_refund_pending_minor > 0 && (
            <Money minor={amount_refund_pending_minor} currency={currency} />
          ),
        Customer: ({ customer_id }) =>
          customer_id === null ? '–' : <PartyName type="customer" id={customer_id} link />,
        Merchant: ({ merchant_id }) => merchant_id && <PartyName type="merchant" id={merchant_id} link />,
        Method: ({ processor }) => <span>Card at {processorName(processor)}</span>,
        'Processor reference': ({ processor_reference }) => (
          <OptionalId id={processor_reference} label="processor reference" />
        ),
        'Payment id': <Id id={id} label="payment id" />,
        'Idempotency key': ({ idempotency_key }) =>
          idempotency_key && <Id id={idempotency_key} label="idempotency key" />,
        Created: ({ created_at }) => <Instant at={created_at} />,
        Authorized: ({ authorized_at }) => authorized_at && <Instant at={authorized_at} />,
        Canceled: ({ canceled_at }) => canceled_at && <Instant at={canceled_at} />,
      }}
    />
  )
}
