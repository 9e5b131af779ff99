// How long what is over is kept.
import type { z } from 'zod'

/** What is kept for how many days, and for how many unless said otherwise. */
const RETENTION_DAYS = { jobs: 90, notifications: 90, events: 400 }
/** Keys are remembered for 30 days, and as long a provider may tell the same again: one day more. */
const LEAST_RETENTION_DAYS = 31
type RetentionDays = typeof RETENTION_DAYS

/** Of `kind:days` pairs separated by commas; the kinds that are left out keep their standard. */
export function parseRetention(text: string, context: z.RefinementCtx): RetentionDays {
  const days: RetentionDays = { ...RETENTION_DAYS }
  for (const part of text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')) {
    const [, kind = '', number] = /^(\w+):(\d{1,5})$/.exec(part) ?? []
    if (!isKind(kind) || Number(number) < LEAST_RETENTION_DAYS)
      context.addIssue({
        code: 'custom',
        message: `must be kind:days pairs separated by commas, at least ${LEAST_RETENTION_DAYS} days each; the kinds are ${Object.keys(RETENTION_DAYS).join(', ')}`,
      })
    else days[kind] = Number(number)
  }
  return days
}

function isKind(kind: string): kind is keyof RetentionDays {
  return Object.hasOwn(RETENTION_DAYS, kind)
}
