// Example top-ups: only the fields in which they differ from the examples of the schema.
import { TOP_UPS } from '#core/config/providers.ts'

export const TOP_UP_PENDING = { status: 'pending', processor_reference: null, succeeded_at: null } as const
export const TOP_UP_FAILED = {
  status: 'failed',
  failure: { code: 'insufficient_funds', message: 'The bank account does not have enough funds.' },
  failed_at: '2026-11-24T10:15:30.123456Z',
} as const

export const TOP_UP_REQUESTS = {
  source: {
    summary: 'From a source, by its token',
    value: {
      idempotency_key: 'top-up-2026-11-20',
      amount_minor: 10_000,
      currency: 'usd',
      source: TOP_UPS.examples.source,
      description: 'November',
    },
  },
  bare: {
    summary: 'From the bank account of the platform',
    value: { idempotency_key: 'top-up-2026-11-21', amount_minor: 10_000, currency: 'eur' },
  },
}
