// One payment, as a story: how it stands, what can be done, who and how, and all that happened.
import type { Payment } from '#sdk/index.ts'
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useCallback, useMemo, useState } from 'react'
import { usePathParam } from '../address.ts'
import { Bone } from '../kit/Bone.tsx'
import { Facts } from '../kit/Facts.tsx'
import { Id } from '../kit/Id.tsx'
import { Instant } from '../kit/Instant.tsx'
import { Json } from '../kit/Json.tsx'
import { Money } from '../kit/Money.tsx'
import { FailedPage } from '../kit/FailedPage.tsx'
import { PageHeader } from '../kit/PageHeader.tsx'
import { Status } from '../kit/Status.tsx'
import { CancelDialog, CaptureDialog, RefundDialog } from '../payments/dialogs.tsx'
import { PaymentOutlook } from '../payments/outlook.tsx'
import { PaymentDisputes, PaymentRefunds } from '../payments/parts.tsx'
import { usePaymentStory } from '../payments/story.ts'
import { StoryTimeline } from '../payments/StoryTimeline.tsx'
import { bankHasMoney, moneyOf, processorName } from '../payments/words.ts'
import { useMay } from '../session.tsx'
import { usePaletteActs } from '../shell/acts.ts'

type PaymentAct = 'Capture' | 'Cancel' | 'Refund'

export function PaymentPage() {
  const id = usePathParam('id')
  const {
    payment: { data: payment, error, refetch, dataUpdatedAt },
    story,
  } = usePaymentStory(id)
  const acts = useActs(payment)
  const [open, setOpen] = useState<PaymentAct>()
  // What a dialog was about stays in it, whatever becomes of the payment.
  const [about, setAbout] = useState<Payment>()
  const begin = useCallback(
    (act: PaymentAct) => {
      setAbout(payment)
      setOpen(act)
    },
    [payment],
  )
  usePaletteActs(
    useMemo(() => acts.map((act) => ({ title: `${act} payment`, run: () => begin(act) })), [acts, begin]),
  )
  const above = { to: '/payments', title: 'Payments' }
  if (error !== null && payment === undefined)
    return <FailedPage title="Payment" above={above} error={error} retry={refetch} />
  const close = () => setOpen(undefined)
  return (
    <>
      <PageHeader
        title={payment === undefined ? 'Payment' : `Payment of ${moneyOf(payment)}`}
        heading={payment && <PaymentHeading payment={payment} />}
        above={above}
        as_of={dataUpdatedAt}
        description={payment === undefined ? <Bone width={200} /> : (payment.description ?? 'No description')}
        actions={acts.map((act, at) => (
          <Button key={act} variant={at === 0 ? 'filled' : 'default'} onClick={() => begin(act)}>
            {act}
          </Button>
        ))}
      />
      {payment && <PaymentOutlook payment={payment} story={story.data} />}
      <div className="columns section">
        <PaymentFacts payment={payment} id={id} />
        <section>
          <h2 className="side-title">Metadata</h2>
          <Json value={payment?.metadata ?? {}} label="metadata" />
        </section>
      </div>
      <PaymentRefunds refunds={story.data?.refunds} />
      <PaymentDisputes disputes={story.data?.disputes} />
      <StoryTimeline payment={payment} story={story} />
      {about && (
        <>
          <CaptureDialog payment={about} opened={open === 'Capture'} onClose={close} />
          <CancelDialog payment={about} opened={open === 'Cancel'} onClose={close} />
          <RefundDialog payment={about} opened={open === 'Refund'} onClose={close} />
        </>
      )}
    </>
  )
}

function PaymentHeading({ payment }: { payment: Payment }) {
  return (
    <span className="line">
      <Money minor={payment.amount_minor} currency={payment.currency} />
      {/* Another status is another element: so it is marked for a moment. */}
      <span key={payment.status} className="marked">
        <Status status={payment.status} pill />
      </span>
    </span>
  )
}

/** What the state and the role allow. */
function useActs(payment: Payment | undefined): PaymentAct[] {
  const [may_capture, may_cancel, may_refund] = [
    useMay('capturePayment'),
    useMay('cancelPayment'),
    useMay('createRefund'),
  ]
  const { status, amount_captured_minor = 0, amount_refunded_minor = 0 } = payment ?? {}
  const is_capturable = may_capture && status === 'authorized'
  const is_cancelable =
    may_cancel && (status === 'authorized' || status === 'requires_action' || status === 'pending')
  const is_refundable =
    may_refund &&
    payment !== undefined &&
    status === 'captured' &&
    amount_refunded_minor < amount_captured_minor &&
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
  const money = (minor: number) => payment && <Money minor={minor} currency={payment.currency} />
  return (
    <section>
      <Facts
        facts={{
          Held: payment && payment.amount_capturable_minor > 0 && money(payment.amount_capturable_minor),
          'Capture before': payment && payment.status === 'authorized' && (
            <Instant at={payment.capture_before} />
          ),
          Captured: payment && payment.amount_captured_minor > 0 && (
            <span>
              {money(payment.amount_captured_minor)}, <Instant at={payment.captured_at} />
            </span>
          ),
          Refunded: payment && payment.amount_refunded_minor > 0 && money(payment.amount_refunded_minor),
          Customer:
            payment &&
            (payment.customer_id === null ? (
              '–'
            ) : (
              <Link to="/customers/$id" params={{ id: payment.customer_id }} className="mono">
                {payment.customer_id}
              </Link>
            )),
          Merchant: payment && payment.merchant_id !== null && (
            <Link to="/merchants/$id" params={{ id: payment.merchant_id }} className="mono">
              {payment.merchant_id}
            </Link>
          ),
          Method: payment && <span>Card at {processorName(payment.processor)}</span>,
          'Processor reference':
            payment &&
            (payment.processor_reference === null ? (
              '–'
            ) : (
              <Id id={payment.processor_reference} label="processor reference" />
            )),
          'Payment id': <Id id={id} label="payment id" />,
          'Idempotency key': payment && payment.idempotency_key !== null && (
            <Id id={payment.idempotency_key} label="idempotency key" />
          ),
          Created: payment && <Instant at={payment.created_at} />,
          Authorized: payment && payment.authorized_at !== null && <Instant at={payment.authorized_at} />,
          Canceled: payment && payment.canceled_at !== null && <Instant at={payment.canceled_at} />,
        }}
      />
    </section>
  )
}
