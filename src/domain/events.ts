// Events: what there is to announce, by type, and the one way in which an event is written.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { filedBy, NOUNS, objectOf, subjectOf, SUBJECTS, type Noun } from './subjects.ts'

/** `<noun>.<word>`: the types of events. */
export type EventType = {
  [N in Noun]: `${N}.${Extract<keyof (typeof SUBJECTS)[N]['events'], string>}`
}[Noun]

/** Every type of event, with what it says and the schema of its data. */
export const EVENTS = NOUNS.flatMap((noun) => {
  const { events, view } = subjectOf(noun)
  return Object.entries(events).map(([word, about]) => ({ type: `${noun}.${word}`, noun, about, data: view }))
})

/**
 * Writes events of a noun as a part of the step that they tell of. `announced` selects one row an event: `event_id`, `event` (an
 * `EventType`) and the columns of the noun; of these an event has what the noun's view lists.
 */
export function announce(sql: Sql | Tx, noun: Noun, announced: Fragment): Fragment {
  const seen = Object.keys(subjectOf(noun).view.shape)
  return sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select announced.tenant_id, announced.event_id, announced.event, announced.${sql(filedBy(noun))}, ${objectOf(sql, 'announced', seen)}
    from (${announced}) announced`
}
