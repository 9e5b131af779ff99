// Formats of times in a timeline: exact, time of day, and offset.
const EXACT = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  timeZoneName: 'short',
})

/** The exact time to the millisecond, with the reader's time zone. */
export const formatExact = (at: string): string => EXACT.format(new Date(at))

/** The time of day, with the date if it is not today. */
export function formatClock(at: string): string {
  const then = new Date(at)
  return then.toLocaleString(undefined, {
    ...(then.toDateString() !== new Date().toDateString() && { month: 'short', day: 'numeric' }),
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1000],
] as const

/** The time since `first`, precise enough to order adjacent entries: `+4.203 s`, `+2 d 3 h`. */
export function formatOffset(first: string, at: string): string {
  const ms = Date.parse(at) - Date.parse(first)
  if (ms < 1000) return `+${Math.max(0, ms)} ms`
  if (ms < 60_000) return `+${(ms / 1000).toFixed(3)} s`
  const large = UNITS.findIndex(([, size]) => ms >= size)
  const [unit, size] = UNITS[large]!
  const [small, small_size] = UNITS[large + 1]!
  return `+${Math.floor(ms / size)} ${unit} ${Math.floor((ms % size) / small_size)} ${small}`
}
