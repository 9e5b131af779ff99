// The outcome of an audit entry.
import { Status } from '../kit/Status.tsx'

type Outcome = { outcome: Record<string, unknown> | null; expects_outcome: boolean }

/**
 * The outcome of an entry, from the HTTP status of the response. An act whose outcome is not recorded separately took
 * effect with its entry.
 */
export function EntryOutcome({ of: { outcome, expects_outcome } }: { of: Outcome }) {
  if (outcome === null)
    return expects_outcome ? <Status status="unknown" label="Not on record" /> : <Status status="done" />
  const { status, state, refused } = outcome
  // The current state of an operator's act.
  if (typeof state === 'string')
    return state === 'done' && refused !== 0 ? <Status status="refused" /> : <Status status={state} />
  if (typeof status !== 'number') return <Status status="done" />
  return status < 300 ? (
    <Status status="done" label={status === 202 ? 'Accepted' : 'Done'} />
  ) : (
    <Status status="refused" label={`Refused, ${status}`} />
  )
}
