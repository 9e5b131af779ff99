// The retention of finished jobs and events.
import type { z } from 'zod'
import { list } from './list.ts'

/** The kinds of history that are dropped after some days. */
export const HISTORY_KINDS = ['jobs', 'notifications', 'events'] as const
export type HistoryKind = (typeof HISTORY_KINDS)[number]
/** The default retention in days, by kind. AI tasks are never deleted: only their outputs are erased. */
const RETENTION_DAYS = { jobs: 90, notifications: 90, ai_tasks: 90 }
type RetentionKind = keyof typeof RETENTION_DAYS
/**
 * The minimum retention in days. Idempotency keys are retained for 30 days, and a provider may repeat a notification
 * for 30 days. The minimum is one day longer.
 */
export const MIN_RETENTION_DAYS = 31

/** Parses `kind:days` pairs, separated by commas. A missing kind has its default. */
export function parseRetention(text: string, context: z.RefinementCtx): Record<RetentionKind, number> {
  const days = { ...RETENTION_DAYS }
  for (const part of list(text)) {
    const [, kind = '', number] = /^(\w+):(\d{1,5})$/.exec(part) ?? []
    if (/^events\b/.test(part))
      context.addIssue({
        code: 'custom',
        message: 'has no kind "events": set EVENT_RETENTION_DAYS, which also applies to deliveries',
      })
    else if (!isKind(kind) || Number(number) < MIN_RETENTION_DAYS)
      context.addIssue({
        code: 'custom',
        message: `must be kind:days pairs separated by commas, at least ${MIN_RETENTION_DAYS} days each; the kinds are ${Object.keys(RETENTION_DAYS).join(', ')}`,
      })
    else days[kind] = Number(number)
  }
  return days
}

function isKind(kind: string): kind is RetentionKind {
  return Object.hasOwn(RETENTION_DAYS, kind)
}
