// Filters that format money and dates for people. All inputs are validated.
import { decimalText, DECIMALS, moneyText } from '#core/money.ts'

/** The default locale of LiquidJS. */
const STANDARD_LOCALE = 'en-US'
const MAX_FORMATS = 100
const CONDITION_HINT = 'Use it only if the value is present: {% if value %}...{% endif %}'
const formats = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>()

/**
 * Formats an amount in minor units with its currency. `{{ 7100 | money: "USD" }}` is `USD 71.00`. With a locale the
 * amount has the format of this locale: `{{ 7100 | money: "EUR", "de" }}` is `71,00 €`.
 */
export function money(amount_minor: unknown, currency: unknown, locale?: unknown): string {
  const code = typeof currency === 'string' ? currency.toUpperCase() : ''
  const decimals = Object.hasOwn(DECIMALS, code) ? DECIMALS[code] : undefined
  if (decimals === undefined) throw new Error('money needs a currency, for example money: "USD"')
  if (amount_minor === null) throw new Error(`money needs an amount: it got null. ${CONDITION_HINT}`)
  const minor = typeof amount_minor === 'string' && amount_minor !== '' ? Number(amount_minor) : amount_minor
  if (typeof minor !== 'number' || !Number.isSafeInteger(minor))
    throw new Error('money needs a whole number in the smallest unit of the currency')
  if (locale === undefined || locale === null) return moneyText(minor, code)
  const options = {
    style: 'currency',
    currency: code,
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  } as const
  const key = `money ${localeOf(locale)} ${code}`
  return cachedFormat(key, () => new Intl.NumberFormat(localeOf(locale), options)).format(
    decimalText(minor, decimals),
  )
}

const STYLES = ['full', 'long', 'medium', 'short'] as const

const DAY = /^\d{4}-\d\d-\d\d$/
/** A day, or a time with an offset. Other texts would be read in the time zone of the server. */
const TIME = /^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d))?$/

/**
 * Formats a date for a time zone and language, in a style: `{{ sent_at | date_in: "Europe/Berlin", "de", "long" }}`.
 * With a fourth argument such as `short`, the time follows in this style. A day without a time, such as a due date, is
 * the same day in every zone.
 */
export function dateIn(
  at: unknown,
  time_zone: unknown,
  locale: unknown = STANDARD_LOCALE,
  date: unknown = 'medium',
  time?: unknown,
): string {
  if (at === null) throw new Error(`date_in needs a time: it got null. ${CONDITION_HINT}`)
  const is_time = typeof at === 'string' && TIME.test(at)
  const instant = typeof at === 'number' ? new Date(at * 1000) : is_time ? new Date(at) : null
  if (instant === null || Number.isNaN(instant.getTime()) || (is_time && !isRealDay(at.slice(0, 10))))
    throw new Error(
      'date_in needs a time with its offset such as 2026-11-26T14:00:00Z, a day such as 2026-11-26, or a number (not text) of seconds since 1970',
    )
  const zone = zoneOf(time_zone)
  const is_day = typeof at === 'string' && DAY.test(at)
  const with_time = time !== undefined && time !== null
  if (is_day && with_time)
    throw new Error(
      'date_in cannot show a time of day for a day: 2026-11-26 is a day, so omit the fourth argument',
    )
  const options = {
    timeZone: is_day ? 'UTC' : zone,
    dateStyle: styleOf(date),
    ...(with_time && { timeStyle: styleOf(time) }),
  }
  const language = localeOf(locale)
  const key = `date ${language} ${JSON.stringify(options)}`
  return cachedFormat(key, () => new Intl.DateTimeFormat(language, options)).format(instant)
}

/** Whether the day exists: `Date` reads February 30 as a day of March. */
function isRealDay(day: string): boolean {
  return new Date(day).toISOString().startsWith(day)
}

function localeOf(locale: unknown): string {
  const is_name = typeof locale === 'string' && /^[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}$/.test(locale)
  try {
    const name = is_name ? new Intl.Locale(locale).baseName : undefined
    // For an unsupported language, Intl falls back to the language of the server.
    if (name !== undefined && Intl.DateTimeFormat.supportedLocalesOf(name).length > 0) return name
  } catch {
    // Intl rejects the name, which has the form of a locale but is invalid.
  }
  throw new Error('the locale must be a language such as "de" or "en-GB"')
}

function zoneOf(zone: unknown): string {
  const is_name = typeof zone === 'string' && /^[A-Za-z][A-Za-z0-9_+/-]{1,49}$/.test(zone)
  try {
    if (is_name)
      return new Intl.DateTimeFormat(STANDARD_LOCALE, { timeZone: zone }).resolvedOptions().timeZone
  } catch {
    // Intl rejects the name: the time zone does not exist.
  }
  throw new Error('date_in needs a time zone, for example date_in: "Europe/Berlin"')
}

function styleOf(style: unknown): (typeof STYLES)[number] {
  const found = STYLES.find((each) => each === style)
  if (found === undefined) throw new Error(`the style must be one of ${STYLES.join(', ')}`)
  return found
}

function cachedFormat<Format extends Intl.NumberFormat | Intl.DateTimeFormat>(
  key: string,
  create: () => Format,
): Format {
  const cached = formats.get(key) as Format | undefined
  if (cached !== undefined) return cached
  const [oldest] = formats.keys()
  if (formats.size >= MAX_FORMATS) formats.delete(oldest!)
  const format = create()
  formats.set(key, format)
  return format
}
