// Says on the pages of an area that it is switched off, or cannot reach its provider.
import { CircleSlash } from 'lucide-react'
import { useAreaState } from './session.tsx'

const WORDS = {
  deployed: null,
  switched_off: 'This area is switched off here. What there is can be read; nothing new is accepted.',
  not_deployed: 'This area is not set up on this installation.',
  without_credentials: 'The credentials of this area are missing: what needs its provider is refused.',
} as const

/** Nothing where the area works. */
export function AreaOffNote({ area }: { area: string }) {
  const words = WORDS[useAreaState(area)]
  if (words === null) return null
  return (
    <div className="note" data-tone="warn" role="note">
      <CircleSlash size={16} aria-hidden />
      <div>{words}</div>
    </div>
  )
}
