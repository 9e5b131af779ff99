// How long finished work and events are kept.
import type { z } from 'zod'

/** The kinds that are dropped after some days, each with its default number of days. */
const RETENTION_DAYS = { jobs: 90, notifications: 90, events: 400 }
/** Idempotency keys are kept for 30 days, and a provider may repeat a notification for as long: hence one day more. */
const LEAST_RETENTION_DAYS = 31
type RetentionDays = typeof RETENTION_DAYS

/** Parses `kind:days` pairs separated by commas. A kind that is left out keeps its default. */
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
