// Requests for refunds in the examples of the OpenAPI document.

export const REFUND_REQUESTS = {
  part: {
    summary: 'A part',
    value: {
      idempotency_key: 'order-17-refund-1',
      amount_minor: 300,
      reason: 'requested_by_customer',
    },
  },
  rest: { summary: 'Everything that is left', value: { idempotency_key: 'order-17-refund-2' } },
}
