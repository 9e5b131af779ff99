// How something stands: an icon, a word and a colour.
import { statusFacts, type Tone } from './statuses.ts'

/**
 * The status of anything, from the one table in statuses.ts. `resource` tells apart those that mean different things by a
 * word; `pill` puts it on a ground, for the head of a page; `word` replaces the word.
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

/** The class that has the colours of a tone: its text, and its ground as `--soft`. */
export function toneClass(tone: Tone, others = ''): string {
  return `${others} tone-${tone}`.trim()
}
