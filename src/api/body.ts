// Parses request bodies: JSON in valid UTF-8 that PostgreSQL can store. Limits their depth and their number of values.
import { isUtf8 } from 'node:buffer'
import { z } from 'zod'
import type { Json } from '#core/db.ts'
import { metadataJson, problemOfNumber } from '#core/json.ts'
import { AppError } from '#core/errors.ts'
import { MAX_TENANT_URL_LENGTH, problemOfUrl } from '#core/tenant-urls.ts'
import { moneyText, settlesExactly, settlementStep, type AmountUse } from '#core/money.ts'

export const BODY_LIMIT_BYTES = 256 * 1024
/** The time to parse a body grows with its number of values rather than its bytes. */
const MAX_VALUES = 4_000
/** The limits of a route that accepts larger bodies. */
export type BodyLimits = { bytes: number; values: number }
const METADATA_LIMIT_BYTES = 16 * 1024
const MAX_INNER_VALUES = 1_000
const MAX_DEPTH = 32

/** Parses a body. An empty body is null, even with a content type. Throws `invalid_request`. */
export function parseBody(bytes: Buffer, max_values = MAX_VALUES): unknown {
  if (bytes.length === 0) return null
  const { values, names } = countTokens(bytes, max_values)
  if (values > max_values)
    throw new AppError('invalid_request', {
      message: `The body may hold at most ${max_values} values; lists and objects count too.`,
    })
  if (!isUtf8(bytes)) throw new AppError('invalid_request', { message: 'The body is not valid UTF-8.' })
  let body: unknown
  try {
    body = JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new AppError('invalid_request', { message: 'The body is not valid JSON.', cause: error })
  }
  checkStorable(body, '', 0)
  // JSON.parse keeps only the last of two equal keys, so the parsed body has fewer keys than the text.
  if (names !== keysOf(body)) throw new AppError('invalid_request', { message: 'The body has a key twice.' })
  return body
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a]
const [LIST, LIST_END, OBJECT, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d]

/**
 * Counts the values of a JSON text (lists and objects are values too), and the names of fields. Stops after `limit`
 * values.
 */
function countTokens(bytes: Uint8Array, limit: number): { values: number; names: number } {
  let values = 1
  let names = 0
  let in_text = false
  let previous = 0
  // Counts up to `limit + 1`, because the end of an empty list or object reduces the count by one.
  for (let at = 0; at < bytes.length && values <= limit + 1; at++) {
    const byte = bytes[at]!
    if (in_text) {
      if (byte === BACKSLASH) at += 1
      else if (byte === QUOTE) in_text = false
    } else if (byte > 0x20) {
      if (byte === QUOTE) in_text = true
      else if (byte === COLON) names += 1
      else if (byte === COMMA || byte === LIST || byte === OBJECT) values += 1
      // The opening bracket has counted a first value, which an empty list or object does not have.
      else if ((byte === LIST_END && previous === LIST) || (byte === OBJECT_END && previous === OBJECT))
        values -= 1
      previous = byte
    }
  }
  return { values, names }
}

/** The error of a field with more than 1,000 values. */
export const FEW_VALUES_ERROR = {
  error: 'must have at most 1,000 values; lists and objects count too',
  abort: true,
}

/** Whether this JSON has at most 1,000 values. */
export function hasFewValues(value: Json): boolean {
  return countTokens(Buffer.from(JSON.stringify(value)), MAX_INNER_VALUES).values <= MAX_INNER_VALUES
}

function keysOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0
  const own = Array.isArray(value) ? 0 : Object.keys(value).length
  return Object.values(value).reduce((sum: number, inner) => sum + keysOf(inner), own)
}

/** Throws `invalid_request` if a part of `value` cannot be stored unchanged or is nested too deeply. */
export function checkStorable(value: unknown, path: string, depth: number): void {
  if (typeof value === 'string') {
    if (!value.isWellFormed() || value.includes('\u0000')) {
      throw new AppError('invalid_request', {
        param: path || undefined,
        message: 'Text may hold neither NUL characters nor lone surrogates.',
      })
    }
    return
  }
  const number_problem = typeof value === 'number' ? problemOfNumber(value) : null
  if (number_problem !== null)
    throw new AppError('invalid_request', { param: path || undefined, message: number_problem })
  if (typeof value !== 'object' || value === null) return
  if (depth >= MAX_DEPTH)
    throw new AppError('invalid_request', {
      param: path.split('.')[0] || undefined,
      message: `JSON may be nested at most ${MAX_DEPTH} levels deep.`,
    })
  for (const [key, inner] of Object.entries(value)) {
    if (key === '__proto__')
      throw new AppError('invalid_request', { param: key, message: 'The key __proto__ is not accepted.' })
    checkStorable(key, path, depth)
    checkStorable(inner, path === '' ? key : `${path}.${key}`, depth + 1)
  }
}

/**
 * The caller's free-form JSON, up to 16 KiB and 1,000 values. Numbers are limited too, because PostgreSQL stores them
 * in full: `5e-324` would take 327 characters.
 */
export const metadataValue = metadataJson
  .refine((value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_LIMIT_BYTES, {
    error: 'must be at most 16 KiB of JSON',
    abort: true,
  })
  .refine(hasFewValues, FEW_VALUES_ERROR)
  .meta({
    description:
      'Any JSON value with at most 16 KiB and 1,000 values. It is returned as sent. Default when the resource is created: `{}`. Whole numbers may be up to 2^53 - 1; other numbers may not be closer to zero than 1e-15.',
    example: { order: 'A-17' },
  })

/** `metadataValue` with the default `{}`. */
export const metadata = metadataValue.default({})

/** Optional text of at most `max` characters; null if left out. */
export const text = (max: number) =>
  z
    .string()
    .max(max)
    .nullish()
    .transform((value) => value ?? null)

/** A required name. */
export const name = z.string().min(1).max(256)

/** An email address; only the format is checked. */
export const emailAddress = z
  .string()
  .max(320, { abort: true })
  .regex(/^[^\s@\p{C}]+@[^\s@\p{C}]+$/u, { error: 'must be an email address' })

/** An http or https URL without blanks, control characters or credentials. */
export const httpUrl = z
  .string()
  .superRefine((text, check) => {
    const message = problemOfUrl(text)
    if (message !== null) check.addIssue({ code: 'custom', message })
  })
  .meta({ format: 'uri', maxLength: MAX_TENANT_URL_LENGTH })

/** Fields that a schema does not support, each with its error message. */
export const unsupportedFields = z.registry<Record<string, string>>()

/**
 * The optional body of an update. Fields that only `create` accepts are refused. `instead`: the advice in their error
 * message, such as what to do with the existing resource before creating another.
 */
export function updateBodyOf<Change extends z.ZodObject>(
  change: Change,
  create: z.ZodObject,
  instead: string,
) {
  const fixed = Object.keys(create.shape).filter((name) => !Object.hasOwn(change.shape, name))
  const messages = fixed.map((name) => [name, `cannot be changed: ${instead} and create another`])
  const key = 'cannot be changed; an update needs no key'
  const body = change.nullish()
  unsupportedFields.add(body, { ...Object.fromEntries(messages), idempotency_key: key })
  return body
}

/** An idempotency key: 1 to 255 visible characters; not `.` or `..`, which URL parsers remove from a path. */
export const idempotencyKey = z
  .string()
  .regex(/^[^\s\p{C}]{1,255}$/u, { error: 'must be 1 to 255 visible characters' })
  .refine((key) => key !== '.' && key !== '..', { error: 'must not be "." or ".."' })
  .meta({
    description:
      'A repeated request with the same key and content takes effect once. You may send the header `Idempotency-Key` instead.',
    minLength: 1,
    maxLength: 255,
    pattern: undefined,
    example: 'order-17-customer',
  })

/**
 * Throws `amount_too_large` above `limit`, the processor's limit, and `payment_invalid` if the processor cannot settle
 * the amount exactly.
 */
export function checkAmount(
  { amount_minor, currency }: { amount_minor: number; currency: string },
  limit: number,
): void {
  if (amount_minor > limit)
    throw new AppError('amount_too_large', {
      param: 'amount_minor',
      message: `The amount is above ${moneyText(limit, currency)}.`,
    })
  if (!settlesExactly(amount_minor, currency)) throw settlementStepError('payment_invalid', currency)
}

/** The error for an amount that is no multiple of the currency's settlement step. */
export function settlementStepError(code: 'payment_invalid' | 'payout_invalid', currency: string): AppError {
  const use: AmountUse = code === 'payout_invalid' ? 'payout' : 'payment'
  const step = settlementStep(currency, use)
  const amounts = use === 'payout' ? 'Amounts of payouts' : 'Amounts'
  const message = `${amounts} in ${currency.toUpperCase()} must end in ${step === 10 ? '0' : '00'}: they are settled in steps of ${moneyText(step, currency)}.`
  return new AppError(code, { param: 'amount_minor', message })
}

/** The body without its idempotency key. */
export function contentOf({
  idempotency_key: _key,
  ...content
}: {
  idempotency_key?: string | undefined
}): object {
  return content
}
