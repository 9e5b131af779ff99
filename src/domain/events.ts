// The catalogue of events, what a pattern means of it, and the one fragment that writes them.
import { nearestName } from '#core/config/near.ts'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import {
  rootIdColumn,
  resourceNameOf,
  RESOURCE_NAMES,
  objectOf,
  resourceOf,
  RESOURCES,
  type ResourceName,
} from './resources.ts'

/** `<resource>.<word>`: the types of events. */
export type EventType = {
  [N in ResourceName]: `${N}.${Extract<keyof (typeof RESOURCES)[N]['events'], string>}`
}[ResourceName]

/** Every type of event, with its meaning and the schema of its data. */
export const EVENTS = RESOURCE_NAMES.flatMap((resource) => {
  const { events, view, completion } = resourceOf(resource)
  const data = completion?.data ?? view
  return Object.entries(events).map(([word, about]) => ({
    type: `${resource}.${word}`,
    resource,
    about,
    data,
  }))
})

/** All that means types of events: `*`, `<resource>.*` of each noun that has events, and the types. */
export const EVENT_TYPE_PATTERNS: string[] = [
  '*',
  ...new Set(EVENTS.map(({ resource }) => `${resource}.*`)),
  ...EVENTS.map(({ type }) => type),
]

/** The types that `pattern` means: `*`, `<resource>.*` or a type. None when there are no such types. */
export function matchEventTypes(pattern: string): EventType[] {
  const found = EVENTS.filter(({ type, resource }) => ['*', `${resource}.*`, type].includes(pattern))
  return found.map(({ type }) => type as EventType)
}

const MAX_PATTERN_LENGTH = 60

/** What is said of a pattern that means no types: that, and which one was probably meant. */
export function unknownTypeMessage(pattern: string): string {
  const shown = pattern.length > MAX_PATTERN_LENGTH ? `${pattern.slice(0, MAX_PATTERN_LENGTH)}...` : pattern
  const [, ...names] = EVENT_TYPE_PATTERNS
  const suggestion = nearestName(shown, names)
  return `\`${shown}\` is no type of event${suggestion === undefined ? '.' : `; did you mean \`${suggestion}\`?`}`
}

const TIME_FIELD = /_(?:at|before|by)$/
const STORED_TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00:00$/

/**
 * The data of an event of this type as they are shown: with times in the form of all answers, where Postgres wrote another
 * into JSON, and with something in the place of what was erased.
 */
export function eventDataView<Data extends Json>(type: string, data: Data): Data {
  if (typeof data !== 'object' || data === null) return data
  const resource = resourceNameOf(type)
  const erased = resource === undefined ? {} : resourceOf(resource).erased
  const shown = Object.entries(Object.assign({}, erased, data)).map(([name, value]) => {
    const [, seconds, fraction = ''] =
      TIME_FIELD.test(name) && typeof value === 'string' ? (STORED_TIME.exec(value) ?? []) : []
    return [name, seconds === undefined ? value : `${seconds}.${fraction.padEnd(6, '0')}Z`]
  })
  return Object.fromEntries(shown) as Data
}

/**
 * Inserts events of a noun as a part of the statement that they report. `new_events` selects one row for each event:
 * `event_id`, `event` (an `EventType`) and the columns of the noun, of which an event contains those in the noun's
 * view.
 */
export function insertEvents(sql: Sql | Tx, resource: ResourceName, new_events: Fragment): Fragment {
  const data = objectOf(sql, 'new_events', Object.keys(resourceOf(resource).view.shape))
  return sql`
    insert into events (tenant_id, id, type, subject_id, data)
    select new_events.tenant_id, new_events.event_id, new_events.event, new_events.${sql(rootIdColumn(resource))}, ${data}
    from (${new_events}) new_events`
}
