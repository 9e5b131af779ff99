// Examples of requests for refunds.

export const REFUND_REQUESTS = {
  part: {
    summary: 'A part',
    value: {
      idempotency_key: 'order-17-refund-1',
      amount_minor: 300,
      reason: 'requested_by_customer',
    },
  },
  rest: { summary: 'The remaining amount', value: { idempotency_key: 'order-17-refund-2' } },
}
