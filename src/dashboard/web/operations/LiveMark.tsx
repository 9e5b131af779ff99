// Whether a page of operators is told what changes as it happens.
import { toneClass } from '../kit/Status.tsx'
import { useStreamState } from './stream.ts'

export function LiveMark() {
  const state = useStreamState()
  return (
    <span className={toneClass(TONES[state], 'live-mark')} role="status">
      <i aria-hidden />
      {WORDS[state]}
    </span>
  )
}

const TONES = { live: 'good', connecting: 'idle', away: 'warn' } as const
const WORDS = { live: 'Live', connecting: 'Connecting', away: 'Not live: connecting again' }
