// Disputes in the format of Stripe's API.
import { methodOf } from './methods.ts'
import type { Rendered } from './rendered.ts'
import type { Dispute } from './versions.ts'

const EVIDENCE = (
  'access_activity_log billing_address cancellation_policy cancellation_policy_disclosure cancellation_rebuttal customer_communication customer_email_address customer_name customer_purchase_ip ' +
  'customer_signature duplicate_charge_documentation duplicate_charge_explanation duplicate_charge_id product_description receipt refund_policy refund_policy_disclosure refund_refusal_explanation ' +
  'service_date service_documentation shipping_address shipping_carrier shipping_date shipping_documentation shipping_tracking_number uncategorized_file uncategorized_text'
).split(' ')
const NO_EVIDENCE = { ...Object.fromEntries(EVIDENCE.map((name) => [name, null])), enhanced_evidence: {} }
/** Visa's code for card-absent fraud. */
const REASON_CODE = '10.4'

export function renderDispute(dispute: Dispute): Rendered {
  const { id, status, evidence, submission_count } = dispute
  const { brand } = methodOf(dispute.method.token)
  const isInquiry = status.startsWith('warning_')
  return {
    id,
    object: 'dispute',
    amount: dispute.amount,
    balance_transactions: dispute.movements.map((each) => renderMovement(each, dispute)),
    charge: dispute.charge,
    created: dispute.created,
    currency: dispute.currency,
    enhanced_eligibility_types: [],
    evidence: { ...NO_EVIDENCE, ...evidence },
    evidence_details: {
      due_by: dispute.due_by,
      enhanced_eligibility: {},
      has_evidence: Object.keys(evidence).length > 0,
      past_due: false,
      submission_count,
      submission_method: submission_count > 0 ? 'manual' : 'not_submitted',
    },
    intended_submission_method: null,
    is_charge_refundable: isInquiry,
    livemode: false,
    metadata: dispute.metadata,
    network_reason_code: REASON_CODE,
    payment_intent: dispute.payment_intent,
    payment_method_details: {
      card: {
        brand,
        case_type: isInquiry ? 'inquiry' : 'chargeback',
        network: brand,
        network_reason_code: REASON_CODE,
      },
      type: 'card',
    },
    reason: dispute.reason,
    status,
  }
}

function renderMovement(
  { id, created, amount, fee }: Dispute['movements'][number],
  { id: source, charge, currency }: Dispute,
): Rendered {
  return {
    id,
    object: 'balance_transaction',
    amount,
    available_on: created,
    balance_type: 'payments',
    created,
    currency,
    description: `Chargeback ${amount < 0 ? 'withdrawal' : 'reversal'} for ${charge}`,
    exchange_rate: null,
    fee,
    fee_details:
      fee === 0
        ? []
        : [{ amount: fee, application: null, currency, description: 'Dispute fee', type: 'stripe_fee' }],
    net: amount - fee,
    reporting_category: amount < 0 ? 'dispute' : 'dispute_reversal',
    source,
    status: 'available',
    type: 'adjustment',
  }
}
