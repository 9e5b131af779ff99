// Whether the page receives live updates.
import { toneClass } from '../kit/Status.tsx'
import { useStreamState } from './stream.ts'

export function LiveMark() {
  const state = useStreamState()
  return (
    <span className={toneClass(TONES[state], 'live-indicator')} role="status">
      <i aria-hidden />
      {TEXTS[state]}
    </span>
  )
}

const TONES = { live: 'good', connecting: 'idle', reconnecting: 'warn' } as const
const TEXTS = { live: 'Live', connecting: 'Connecting', reconnecting: 'Not live: reconnecting' }
