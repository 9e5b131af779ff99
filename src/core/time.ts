// Timestamps as text: ISO 8601 in UTC with microseconds, which a Date would lose.
import { z } from 'zod'

const DATE_TIME =
  /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-](0\d|1[0-5]):[0-5]\d)$/

/** A timestamp in answers. */
export const timestamp = z.string().meta({
  description: 'ISO 8601 in UTC, with microseconds.',
  format: 'date-time',
  example: '2026-11-20T10:15:30.123456Z',
})

/** A timestamp in requests: `Z` or an offset, and any number of fraction digits, cut to microseconds. */
export const dateTime = z
  .string()
  .max(64, { abort: true })
  .regex(DATE_TIME, { error: 'must be an ISO 8601 date-time, e.g. 2026-11-20T10:15:30.123456Z' })
  .refine(isRealDate, { error: 'must be a date that exists' })
  .overwrite((text) => text.replace(/(\.\d{6})\d+/, '$1'))
  .meta({
    format: 'date-time',
    pattern: undefined,
    maxLength: undefined,
    example: '2026-11-20T10:15:30.123456Z',
  })

const TIME_OF_OPERATORS = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d)(?::?(\d\d))?$/i

/**
 * The Unix milliseconds of a time as an operator writes it: with its zone, also in PostgreSQL's form
 * `2026-11-20 10:15+00`. Undefined if it is none.
 */
export function parseTime(text: string): number | undefined {
  const [, date, time, seconds = ':00', zone = '', minutes] = TIME_OF_OPERATORS.exec(text) ?? []
  const offset = /^z$/i.test(zone) ? 'Z' : `${zone}:${minutes ?? '00'}`
  const iso = `${date}T${time}${seconds}${offset}`
  return isRealDate(iso) ? Date.parse(iso) : undefined
}

/** Converts Postgres's text of a timestamptz in UTC (`2026-11-20 10:15:30.1234+00`) to ISO 8601 with microseconds. */
export function isoFromPostgres(text: string): string {
  const zone = text.lastIndexOf('+00')
  const dot = text.indexOf('.')
  const seconds = text.slice(0, dot === -1 ? zone : dot)
  const fraction = dot === -1 ? '' : text.slice(dot + 1, zone)
  return `${seconds.replace(' ', 'T')}.${fraction.padEnd(6, '0')}Z`
}

// The regex accepts 30 February; Postgres does not, and its error would be a 500.
function isRealDate(text: string): boolean {
  if (!DATE_TIME.test(text)) return false
  const [year, month, day] = text.slice(0, 10).split('-').map(Number)
  return year! > 0 && day! <= new Date(Date.UTC(year!, month, 0)).getUTCDate()
}
