// Texts of verifications.
import type { Verification } from '#sdk/index.ts'

/** What a table shows of the decision. */
export function decisionText(verification: Pick<Verification, 'decided_by' | 'outdated'>): string {
  return verification.outdated ? 'Outdated' : (decidedBy(verification) ?? '–')
}

/** The author of the decision. Undefined: undecided. */
export function decidedBy({ decided_by }: Pick<Verification, 'decided_by'>): string | undefined {
  if (decided_by === null) return undefined
  return decided_by === 'manual' ? 'By hand' : 'By the provider'
}

/** Whether the verification is undecided. A verification that the provider refused is rejected without a decision. */
export const isUndecided = ({ status }: Pick<Verification, 'status'>): boolean =>
  status === 'pending' || status === 'requires_input' || status === 'processing'
