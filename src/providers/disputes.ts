// Disputes as a payment processor reports them.

/**
 * The processor's record of a dispute. Amounts are in the currency's smallest unit, `currency` is in upper case, times
 * are ISO 8601.
 */
export type ProcessorDispute = {
  reference: string
  payment_reference: string | null
  /** `warning`: an inquiry or a prevented dispute; no money was withdrawn. */
  status: 'needs_response' | 'under_review' | 'won' | 'lost' | 'warning'
  closed: boolean
  reason: string | null
  amount_minor: number
  currency: string
  evidence_due_by: string | null
  opened_at: string
  /** Withdrawals and reinstatements, oldest first, without fees. */
  movements: {
    reference: string
    kind: 'dispute_withdrawn' | 'dispute_reinstated'
    amount_minor: number
  }[]
}
