// The catalogue of events, patterns of event types, and the SQL that inserts events.
import { nearestName } from '#core/config/near.ts'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { traceColumn } from '#core/tracing.ts'
import {
  rootIdColumn,
  resourceNameOf,
  RESOURCE_NAMES,
  objectOf,
  resourceOf,
  RESOURCES,
  type ResourceName,
} from './resources.ts'

/** The types of events: `<resource>.<name>`. */
export type EventType = {
  [N in ResourceName]: `${N}.${Extract<keyof (typeof RESOURCES)[N]['events'], string>}`
}[ResourceName]

/** Every type of event, with its description and the schema of its data. */
export const EVENTS = RESOURCE_NAMES.flatMap((resource) => {
  const { events, view, completion } = resourceOf(resource)
  const data = completion?.data ?? view
  return Object.entries(events).map(([name, about]) => ({
    type: `${resource}.${name}`,
    resource,
    about,
    data,
  }))
})

/** The patterns of event types: `*`, `<resource>.*` of each resource that has events, and each type. */
export const EVENT_TYPE_PATTERNS: string[] = [
  '*',
  ...new Set(EVENTS.map(({ resource }) => `${resource}.*`)),
  ...EVENTS.map(({ type }) => type),
]

/** The types that match `pattern`: `*`, `<resource>.*` or a type. Empty when no type matches. */
export function matchEventTypes(pattern: string): EventType[] {
  const found = EVENTS.filter(({ type, resource }) => ['*', `${resource}.*`, type].includes(pattern))
  return found.map(({ type }) => type as EventType)
}

const MAX_PATTERN_LENGTH = 60

/** The error text for a pattern that matches no type, with the most similar pattern. */
export function unknownTypeMessage(pattern: string): string {
  const quoted = pattern.length > MAX_PATTERN_LENGTH ? `${pattern.slice(0, MAX_PATTERN_LENGTH)}...` : pattern
  const [, ...names] = EVENT_TYPE_PATTERNS
  const suggestion = nearestName(quoted, names)
  return `\`${quoted}\` is not an event type${suggestion === undefined ? '.' : `; did you mean \`${suggestion}\`?`}`
}

const TIME_FIELD = /_(?:at|before|by)$/
const STORED_TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00:00$/

/**
 * The data of an event as answers show it: times in the format of all answers, replacements for erased fields, and
 * `livemode`, which follows from the tenant. Stored JSON has times in the format of PostgreSQL.
 */
export function eventDataView<Data extends Json>(type: string, data: Data, livemode: boolean): Data {
  if (typeof data !== 'object' || data === null) return data
  const resource = resourceNameOf(type)
  const erased = resource === undefined ? {} : resourceOf(resource).erased
  const fields = Object.entries(Object.assign({}, erased, data)).map(([name, value]) => {
    const [, seconds, fraction = ''] =
      TIME_FIELD.test(name) && typeof value === 'string' ? (STORED_TIME.exec(value) ?? []) : []
    return [name, seconds === undefined ? value : `${seconds}.${fraction.padEnd(6, '0')}Z`]
  })
  return { ...Object.fromEntries(fields), livemode } as Data
}

/**
 * The SQL that inserts events of a resource within the statement that changes it. `new_events` selects one row per
 * event: `event_id`, `event` (an `EventType`) and the columns of the resource. An event stores the columns of the
 * resource's view. It continues the trace of the current span.
 */
export function insertingEvents(sql: Sql | Tx, resource: ResourceName, new_events: Fragment): Fragment {
  const trace = traceColumn(sql)
  const data = objectOf(sql, 'new_events', Object.keys(resourceOf(resource).view.shape))
  return sql`
    insert into events (tenant_id, id, type, subject_id, data ${trace.name})
    select new_events.tenant_id, new_events.event_id, new_events.event, new_events.${sql(rootIdColumn(resource))},
      ${data} ${trace.value}
    from (${new_events}) new_events`
}
