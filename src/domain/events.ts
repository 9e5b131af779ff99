// The catalogue of events, what a pattern means of it, and the one fragment that writes them.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { filedBy, NOUNS, objectOf, subjectOf, SUBJECTS, type Noun } from './subjects.ts'

/** `<noun>.<word>`: the types of events. */
export type EventType = {
  [N in Noun]: `${N}.${Extract<keyof (typeof SUBJECTS)[N]['events'], string>}`
}[Noun]

/** Every type of event, with its meaning and the schema of its data. */
export const EVENTS = NOUNS.flatMap((noun) => {
  const { events, view } = subjectOf(noun)
  return Object.entries(events).map(([word, about]) => ({ type: `${noun}.${word}`, noun, about, data: view }))
})

/** The types that `pattern` means: `*`, `<noun>.*` or a type. None when there are no such types. */
export function typesMatching(pattern: string): string[] {
  const start = pattern.endsWith('*') ? pattern.slice(0, -1) : undefined
  if (start !== undefined && start !== '' && !NOUNS.some((noun) => start === `${noun}.`)) return []
  return EVENTS.flatMap(({ type }) =>
    (start === undefined ? type === pattern : type.startsWith(start)) ? [type] : [],
  )
}

/**
 * Inserts events of a noun as a part of the statement that they report. `announced` selects one row for each event:
 * `event_id`, `event` (an `EventType`) and the columns of the noun, of which an event contains those in the noun's
 * view.
 */
export function announce(sql: Sql | Tx, noun: Noun, announced: Fragment): Fragment {
  const data = objectOf(sql, 'announced', Object.keys(subjectOf(noun).view.shape))
  return sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select announced.tenant_id, announced.event_id, announced.event, announced.${sql(filedBy(noun))}, ${data}
    from (${announced}) announced`
}
