// One sentence about a status, in the colour of the status.
import type { ReactNode } from 'react'
import { toneClass } from '../kit/Status.tsx'
import { statusFacts, type Tone } from '../kit/statuses.ts'
import './parties.css'

/** The colour comes from `tone` if it is given, otherwise from `status`. */
export function StatusNote({
  status,
  tone,
  children,
}: {
  status?: string
  tone?: Tone
  children: ReactNode
}) {
  const resolved_tone = tone ?? (status === undefined ? 'idle' : statusFacts(status).tone)
  return <p className={toneClass(resolved_tone, 'status-note')}>{children}</p>
}
