// The strip at the top of every page of test mode. The frame around the page is in styles/mode.css.
import { MODE } from '../mode.ts'

export function ModeStrip() {
  if (MODE === 'live') return null
  return (
    <aside className="mode-strip" aria-label="Mode">
      Test mode: no money moves
    </aside>
  )
}
