// The variables of outgoing events.
import { z } from 'zod'
import { list } from './list.ts'
import { MIN_RETENTION_DAYS } from './retention.ts'
import { count, networks, type VariableRow } from './row.ts'

/** The default delays before each attempt, in seconds. They add up to 75.6 hours. */
const RETRY_SCHEDULE = '0,5,300,1800,7200,18000,36000,50400,72000,86400'

const MAX_DELIVERY_ATTEMPTS = 50
const MAX_DELAY_S = 1_000_000

export const EVENT_VARIABLES = {
  WEBHOOKS_ALLOW_CIDRS: [
    networks.prefault(''),
    '10.1.0.0/16,fd12:3456:789a::/48',
    'private networks (CIDR) to which events may be sent, separated by commas; unset: none. Without it, `npm start` allows this machine, except in production',
    ['api', 'worker'],
  ],
  DELIVERY_CONCURRENCY: [
    count(500, 5000),
    '500',
    'events that a worker sends to webhook endpoints at once; used instead of WORKER_CONCURRENCY',
    ['worker'],
  ],
  WEBHOOK_RETRY_SCHEDULE_S: [
    z.string().default(RETRY_SCHEDULE).transform(parseRetrySchedule),
    RETRY_SCHEDULE,
    'seconds to wait before each attempt to deliver an event; the first must be 0, and each of the others varies by up to a fifth',
    ['worker'],
  ],
  EVENT_RETENTION_DAYS: [
    z.coerce.number().int().min(MIN_RETENTION_DAYS).max(10_000).default(90),
    '90',
    'retention of events and their deliveries in days, at least 31',
    ['worker'],
  ],
} as const satisfies Record<string, VariableRow>

/** Parses the delays before each attempt, in seconds, separated by commas. The first must be 0. */
function parseRetrySchedule(text: string, context: z.RefinementCtx): number[] {
  const delays = list(text).map((part) => (/^\d{1,7}(\.\d{1,3})?$/.test(part) ? Number(part) : NaN))
  if (
    delays[0] !== 0 ||
    delays.length > MAX_DELIVERY_ATTEMPTS ||
    !delays.every((delay) => delay <= MAX_DELAY_S)
  )
    context.addIssue({
      code: 'custom',
      message: `must be at most ${MAX_DELIVERY_ATTEMPTS} numbers of seconds, separated by commas, the first of them 0`,
    })
  return delays
}
