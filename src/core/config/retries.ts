// The schedule of attempts to deliver an event.
import type { z } from 'zod'
import { list } from './list.ts'

/** In seconds: 75.6 hours in all. */
export const RETRY_SCHEDULE = '0,5,300,1800,7200,18000,36000,50400,72000,86400'

const MOST_ATTEMPTS = 50
const LONGEST_S = 1_000_000

/** Parses the seconds before each attempt, separated by commas; the first attempt is made at once. */
export function parseRetrySchedule(text: string, context: z.RefinementCtx): number[] {
  const delays = list(text).map((part) => (/^\d{1,7}(\.\d{1,3})?$/.test(part) ? Number(part) : NaN))
  if (delays[0] !== 0 || delays.length > MOST_ATTEMPTS || !delays.every((delay) => delay <= LONGEST_S))
    context.addIssue({
      code: 'custom',
      message: `must be seconds separated by commas, 0 first, ${MOST_ATTEMPTS} at most`,
    })
  return delays
}
