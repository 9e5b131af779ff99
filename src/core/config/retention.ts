// How long finished work and events are kept.
import type { z } from 'zod'
import { list } from './list.ts'

/** The kinds of history that are dropped after some days, each with its default number of days. */
const HISTORY_DAYS = { jobs: 90, notifications: 90, events: 400 }
export type HistoryKind = keyof typeof HISTORY_DAYS
export const HISTORY_KINDS = Object.keys(HISTORY_DAYS) as HistoryKind[]
/** AI tasks stay; what they answered is erased. */
const RETENTION_DAYS = { ...HISTORY_DAYS, ai_tasks: 90 }
type RetentionKind = keyof typeof RETENTION_DAYS
/** Idempotency keys are kept for 30 days, and a provider may repeat a notification for as long: hence one day more. */
const LEAST_RETENTION_DAYS = 31

/** Parses `kind:days` pairs separated by commas. A kind that is left out keeps its default. */
export function parseRetention(text: string, context: z.RefinementCtx): Record<RetentionKind, number> {
  const days = { ...RETENTION_DAYS }
  for (const part of list(text)) {
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

function isKind(kind: string): kind is RetentionKind {
  return Object.hasOwn(RETENTION_DAYS, kind)
}
