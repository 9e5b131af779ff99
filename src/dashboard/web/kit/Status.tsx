// A status: icon, label and colour.
import { statusFacts, type Tone } from './statuses.ts'

/**
 * A status from the table in statuses.ts. `resource` selects the meaning of a status that differs by resource. `pill`
 * adds a background, for page headers. `label` replaces the label of the table.
 */
export function Status({
  status,
  resource,
  pill = false,
  label,
}: {
  status: string
  resource?: string
  pill?: boolean
  label?: string
}) {
  const facts = statusFacts(status, resource)
  return (
    <span className={toneClass(facts.tone, 'status')} data-pill={pill || undefined}>
      <facts.icon size={14} strokeWidth={2.25} aria-hidden />
      {label ?? facts.label}
    </span>
  )
}

/** The class names of a tone: text colour, and background as `--soft`. */
export function toneClass(tone: Tone, others = ''): string {
  return `${others} tone-${tone}`.trim()
}
