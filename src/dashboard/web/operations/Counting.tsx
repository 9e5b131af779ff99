// Whether the figures are current: the workers that count jobs may be late or have stopped.
import { formatInstant } from '../kit/Instant.tsx'
import { toneClass } from '../kit/Status.tsx'
import type { QueuesAnswer } from './shapes.ts'

type CountingState = Pick<QueuesAnswer, 'as_of' | 'counting'>

/** A warning about stale figures. Nothing while they are current or loading. */
export function CountingNote({ of }: { of: CountingState | undefined }) {
  if (of === undefined || of.counting === 'current') return null
  return (
    <strong className={toneClass(of.counting === 'stopped' ? 'bad' : 'warn')} role="status">
      {countingText(of)}
    </strong>
  )
}

function countingText({ as_of, counting }: CountingState): string {
  if (as_of === null)
    return counting === 'stopped' ? 'Not counted yet: no worker is counting.' : 'Not counted yet.'
  return counting === 'stopped'
    ? `Not counted since ${formatInstant(as_of)}: no worker is counting.`
    : `Counted up to ${formatInstant(as_of)}; a worker is catching up.`
}
