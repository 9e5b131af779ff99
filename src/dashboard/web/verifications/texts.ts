// Verifications in words.
import type { Verification } from '#sdk/index.ts'

/** By whom it was decided, for a table; undefined while nobody has. */
export function decidedBy({ decided_by }: Pick<Verification, 'decided_by'>): string | undefined {
  if (decided_by === null) return undefined
  return decided_by === 'manual' ? 'By hand' : 'By the provider'
}

/** Whether nobody has decided. One that the provider did not take is rejected without a decision. */
export const isUndecided = ({ status }: Pick<Verification, 'status'>): boolean =>
  status === 'pending' || status === 'requires_input' || status === 'processing'
