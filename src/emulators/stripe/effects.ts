// The independent record of money movements: one line for each effect of the engine, which never reads it.
import { EFFECT_RESOURCES, type Effect, type EffectReferences } from '#providers/sandbox/stripe/effects.ts'
import type { AppendFile } from '../shared/append-file.ts'

export type EffectLine = Effect & {
  /** Sequence number, from 1 without gaps. */
  seq: number
  /** Time of the real clock (ISO 8601). */
  at: string
}

/** The record in memory. `file` contains the same lines. */
export type Effects = { lines: EffectLine[]; file: AppendFile | null }

/** Appends an effect to the record. */
export function writeEffect({ lines, file }: Effects, effect: Effect): void {
  const line: EffectLine = { seq: lines.length + 1, at: new Date().toISOString(), ...effect }
  lines.push(line)
  file?.append(line)
}

type EffectFilter = EffectReferences & {
  effect?: string
  source?: string
  idempotency_key?: string
  /** Only lines after this number. */
  after_seq?: number
  metadata?: Record<string, string>
}

/** Filters by equality, in addition to metadata and `after_seq`. */
export const EFFECT_FILTERS = ['effect', 'source', 'idempotency_key', ...EFFECT_RESOURCES] as const

/** Matching effects, oldest first, after the file is flushed. */
export async function findEffects(effects: Effects, filter: EffectFilter): Promise<EffectLine[]> {
  await effects.file?.flush()
  const metadata = Object.entries(filter.metadata ?? {})
  return effects.lines.filter(
    (line) =>
      line.seq > (filter.after_seq ?? 0) &&
      EFFECT_FILTERS.every((name) => filter[name] === undefined || line[name] === filter[name]) &&
      metadata.every(([key, value]) => line.metadata[key] === value),
  )
}
