// Rules for the parameters of Stripe's API by name. Sources: the `*Params` types of stripe-node 23.1 (kinds,
// enumerations, exclusions) and Stripe's OpenAPI description of 2026-10 (`maxLength`, which the types omit).
import { isCurrency, supportedCurrencies } from './currencies.ts'
import { parameterRefused } from './errors.ts'
import { isParams, type Params, type Value } from './parse.ts'

/** A rule throws Refusal if the value of the parameter `name` is invalid. */
export type Rule = (value: Value, name: string) => void

/** Default `maxLength` of texts (OpenAPI). */
const MAX_TEXT_LENGTH = 5000

/** A non-empty text: Stripe treats an empty text as an attempt to unset the parameter. */
export const text =
  (max_length = MAX_TEXT_LENGTH): Rule =>
  (value, name) => {
    if (typeof value !== 'string') throw parameterRefused('Invalid string', name)
    if (value === '') throw emptyRefused(name)
    if (value.length > max_length)
      throw parameterRefused(
        `Invalid string: must be at most ${max_length} characters`,
        name,
        'parameter_invalid_string_length',
      )
  }

export const enumeration =
  (...allowed: string[]): Rule =>
  (value, name) => {
    if (value === '') throw emptyRefused(name)
    if (typeof value !== 'string' || !allowed.includes(value))
      throw parameterRefused(`Invalid ${name}: must be one of ${allowed.join(', ')}`, name)
  }

const integer: Rule = (value, name) => {
  if (value === '') throw emptyRefused(name)
  if (typeof value !== 'string' || !/^-?\d{1,15}$/.test(value))
    throw parameterRefused(`Invalid integer: ${JSON.stringify(value)}`, name, 'parameter_invalid_integer')
}

/** A number or a range: `created=1` or `created[gte]=1` (`RangeQueryParam`). */
export const range: Rule = (value, name) => {
  if (!isParams(value)) return integer(value, name)
  for (const [bound, number] of Object.entries(value)) {
    if (!['gt', 'gte', 'lt', 'lte'].includes(bound))
      throw parameterRefused(
        `Received unknown parameter: ${name}[${bound}]`,
        `${name}[${bound}]`,
        'parameter_unknown',
      )
    integer(number, `${name}[${bound}]`)
  }
}

export const boolean = enumeration('true', 'false')

const hash: Rule = (value, name) => {
  if (!isParams(value)) throw parameterRefused('Invalid hash', name)
}

/** Stripe's `Emptyable`: an empty text unsets the parameter. */
const emptyable =
  (rule: Rule): Rule =>
  (value, name) => {
    if (value !== '') rule(value, name)
  }

/** A list whose items all follow the rule. A single item counts as a list. */
const listOf =
  (rule: Rule): Rule =>
  (value, name) => {
    for (const each of Array.isArray(value) ? value : [value]) rule(each, name)
  }

/** A supported currency in lower case. */
const currency: Rule = (value, name) => {
  if (typeof value === 'string' && isCurrency(value)) return
  throw parameterRefused(
    `Invalid currency: ${JSON.stringify(value)}. Stripe currently supports these currencies: ${supportedCurrencies()}`,
    name,
  )
}

/** A URL with any scheme: mobile apps have schemes of their own. */
const url: Rule = (value, name) => {
  text()(value, name)
  if (typeof value === 'string' && URL.canParse(value)) return
  throw parameterRefused('Not a valid URL', name, 'url_invalid')
}

/** Up to 22 Latin characters, at least one letter, none of `<>\'"*` (docs: "Statement descriptors"). */
const descriptor =
  (min_length: number): Rule =>
  (value, name) => {
    text(22)(value, name)
    const text_value = typeof value === 'string' ? value : ''
    if (
      text_value.length < min_length ||
      !/[A-Za-z]/.test(text_value) ||
      /[<>\\'"*]|[^\x20-\x7e]/.test(text_value)
    )
      throw parameterRefused(
        'Invalid statement descriptor: it must have 5 to 22 Latin characters, a letter among them, and none of <>\\\'"*',
        name,
      )
  }

const sourceType = enumeration('bank_account', 'card', 'fpx')

/** Default rules by name of the parameter. */
const RULES: Readonly<Record<string, Rule>> = {
  allowed_payment_method_types: listOf(text()),
  amount: integer,
  amount_details: emptyable(hash),
  amount_to_capture: integer,
  amount_to_confirm: integer,
  application_fee_amount: integer,
  arrival_date: range,
  automatic_payment_methods: hash,
  cancellation_reason: enumeration('duplicate', 'fraudulent', 'requested_by_customer', 'abandoned'),
  capture_method: enumeration('automatic', 'automatic_async', 'manual'),
  charge: text(),
  client_reference_id: text(),
  client_secret: text(),
  confirm: boolean,
  confirmation_method: enumeration('automatic', 'manual'),
  confirmation_token: text(),
  created: range,
  currency,
  customer: text(),
  customer_account: text(),
  delivery_success: boolean,
  description: text(),
  destination: text(),
  ending_before: text(),
  error_on_requires_action: boolean,
  evidence: hash,
  excluded_payment_method_types: listOf(text()),
  expand: listOf(text()),
  final_capture: boolean,
  hooks: hash,
  instructions_email: text(),
  intended_submission_method: enumeration(
    'manual',
    'prefer_manual',
    'prefer_smart_disputes',
    'smart_disputes',
  ),
  limit: integer,
  mandate: text(),
  mandate_data: emptyable(hash),
  metadata: emptyable(hash),
  method: enumeration('standard', 'instant'),
  // In addition to booleans, Stripe accepts `one_off` and `recurring`.
  off_session: enumeration('true', 'false', 'one_off', 'recurring'),
  on_behalf_of: text(),
  options: hash,
  origin: enumeration('customer_balance'),
  page: text(),
  payment_details: emptyable(hash),
  payment_intent: text(),
  payment_method: text(),
  payment_method_configuration: text(),
  payment_method_data: hash,
  payment_method_options: hash,
  payout_method: text(),
  provided_details: hash,
  query: text(),
  radar_options: hash,
  reason: enumeration('duplicate', 'fraudulent', 'requested_by_customer'),
  receipt_email: emptyable(text()),
  refund_application_fee: boolean,
  related_customer: text(),
  related_customer_account: text(),
  related_person: hash,
  return_url: url,
  reverse_transfer: boolean,
  setup_future_usage: emptyable(enumeration('off_session', 'on_session')),
  shipping: emptyable(hash),
  source: text(),
  source_transaction: text(),
  source_type: sourceType,
  starting_after: text(),
  statement_descriptor: descriptor(5),
  statement_descriptor_suffix: descriptor(1),
  status: text(),
  submit: boolean,
  transfer_data: hash,
  transfer_group: text(),
  type: text(),
  types: listOf(text()),
  use_stripe_sdk: boolean,
  verification_flow: text(),
}

/** The accepted parameters of an operation with their rules. */
export type ParameterRules = ReadonlyMap<string, Rule>

/**
 * The rules of an operation. `names`: the names of its parameters, space-separated, such as `amount currency`. `own`:
 * rules that replace the defaults.
 */
export function parameters(names: string, own: Readonly<Record<string, Rule>> = {}): ParameterRules {
  return new Map(
    names.split(' ').map((name) => {
      const rule = own[name] ?? RULES[name]
      if (rule === undefined) throw new Error(`the parameter ${name} has no rule`)
      return [name, rule]
    }),
  )
}

/** Refuses unknown parameters and invalid values. */
export function checkParams(params: Params, accepts: ParameterRules): void {
  for (const name in params) {
    const rule = accepts.get(name)
    if (rule === undefined)
      throw parameterRefused(`Received unknown parameter: ${name}`, name, 'parameter_unknown')
    rule(params[name]!, name)
  }
}

/** Throws Refusal if more than one of these parameters is present. */
export function exclusive(params: Params, ...names: string[]): void {
  if (names.filter((name) => params[name] !== undefined).length > 1)
    throw parameterRefused(`You may only specify one of these parameters: ${names.join(', ')}.`, names[0])
}

function emptyRefused(name: string): Error {
  return parameterRefused(
    `You passed an empty string for '${name}'. We assume empty values are an attempt to unset a parameter; however '${name}' cannot be unset. You should remove '${name}' from your request or supply a non-empty value.`,
    name,
    'parameter_invalid_empty',
  )
}
