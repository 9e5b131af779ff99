// What came of an act on record.
import { Status } from '../kit/Status.tsx'

type Outcome = { outcome: Record<string, unknown> | null; expects_outcome: boolean | null }

/** By the status that was answered. What has no outcome of its own was done with the entry. */
export function EntryOutcome({ of: { outcome, expects_outcome } }: { of: Outcome }) {
  if (outcome === null) {
    // Old entries do not say whether one was to follow.
    if (expects_outcome === null) return <span className="dim">–</span>
    return expects_outcome ? <Status status="unknown" label="Not on record" /> : <Status status="done" />
  }
  const { status, state, refused } = outcome
  // An act of operators, as it stands.
  if (typeof state === 'string')
    return state === 'done' && refused !== 0 ? <Status status="refused" /> : <Status status={state} />
  if (typeof status !== 'number') return <Status status="done" />
  return status < 300 ? (
    <Status status="done" label={status === 202 ? 'Accepted' : 'Done'} />
  ) : (
    <Status status="refused" label={`Refused, ${status}`} />
  )
}
