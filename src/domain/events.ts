// The catalogue of events, what a pattern means of it, and the one fragment that writes them.
import { nearestName } from '#core/config/near.ts'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { filedBy, nounOf, NOUNS, objectOf, subjectOf, SUBJECTS, type Noun } from './subjects.ts'

/** `<noun>.<word>`: the types of events. */
export type EventType = {
  [N in Noun]: `${N}.${Extract<keyof (typeof SUBJECTS)[N]['events'], string>}`
}[Noun]

/** Every type of event, with its meaning and the schema of its data. */
export const EVENTS = NOUNS.flatMap((noun) => {
  const { events, view, completes } = subjectOf(noun)
  const data = completes?.data ?? view
  return Object.entries(events).map(([word, about]) => ({ type: `${noun}.${word}`, noun, about, data }))
})

/** All that means types of events: `*`, `<noun>.*` of each noun that has events, and the types. */
export const TYPE_PATTERNS: string[] = [
  '*',
  ...new Set(EVENTS.map(({ noun }) => `${noun}.*`)),
  ...EVENTS.map(({ type }) => type),
]

/** The types that `pattern` means: `*`, `<noun>.*` or a type. None when there are no such types. */
export function typesMatching(pattern: string): EventType[] {
  const found = EVENTS.filter(({ type, noun }) => ['*', `${noun}.*`, type].includes(pattern))
  return found.map(({ type }) => type as EventType)
}

const LONGEST_SHOWN = 60

/** What is said of a pattern that means no types: that, and which one was probably meant. */
export function problemOfType(pattern: string): string {
  const shown = pattern.length > LONGEST_SHOWN ? `${pattern.slice(0, LONGEST_SHOWN)}...` : pattern
  const [, ...names] = TYPE_PATTERNS
  const meant = nearestName(shown, names)
  return `\`${shown}\` is no type of event${meant === undefined ? '.' : `; did you mean \`${meant}\`?`}`
}

const TIME_FIELD = /_(?:at|before|by)$/
const TIME_STORED = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00:00$/

/**
 * The data of an event of this type as they are shown: with times in the form of all answers, where Postgres wrote another
 * into JSON, and with something in the place of what was erased.
 */
export function shownData<Data extends Json>(type: string, data: Data): Data {
  if (typeof data !== 'object' || data === null) return data
  const noun = nounOf(type)
  const erased = noun === undefined ? {} : subjectOf(noun).erased
  const shown = Object.entries(Object.assign({}, erased, data)).map(([name, value]) => {
    const [, seconds, fraction = ''] =
      TIME_FIELD.test(name) && typeof value === 'string' ? (TIME_STORED.exec(value) ?? []) : []
    return [name, seconds === undefined ? value : `${seconds}.${fraction.padEnd(6, '0')}Z`]
  })
  return Object.fromEntries(shown) as Data
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
