// One sentence on how something stands, in the colour of that.
import type { ReactNode } from 'react'
import { toneClass } from '../kit/Status.tsx'
import { statusFacts, type Tone } from '../kit/statuses.ts'
import './parties.css'

/** Coloured as the `status`, or by a `tone`. */
export function StatusNote({
  status,
  tone,
  children,
}: {
  status?: string
  tone?: Tone
  children: ReactNode
}) {
  const shown = tone ?? (status === undefined ? 'idle' : statusFacts(status).tone)
  return <p className={toneClass(shown, 'status-note')}>{children}</p>
}
