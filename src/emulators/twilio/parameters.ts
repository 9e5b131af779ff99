// The parameters of messages and of lists of messages. Sources: `MessageListInstanceCreateOptions` and
// `MessageListInstancePageOptions` of twilio 6.2, and Twilio's OpenAPI description (patterns, numbers, enumerations).
import { smsInvalid } from '#providers/sandbox/sms/refusal.ts'

const BOOLEAN = /^(true|false)$/
const ANY = /^/s

const NUMBER = /^\d{1,9}$/
const DATE = /^\d{4}-\d{2}-\d{2}/
const sid = (prefix: string) => new RegExp(`^${prefix}[0-9a-fA-F]{32}$`)

/** Patterns of the values. Values with a specific error code of Twilio are checked in create.ts. */
const MESSAGE_PARAMETERS: Readonly<Record<string, RegExp>> = {
  AddressRetention: /^(retain|obfuscate)$/,
  ApplicationSid: sid('AP'),
  Attempt: NUMBER,
  Body: ANY,
  ContentRetention: /^(retain|discard)$/,
  ContentSid: sid('HX'),
  ContentVariables: ANY,
  FallbackFrom: ANY,
  ForceDelivery: BOOLEAN,
  From: ANY,
  MaxPrice: /^\d+(\.\d+)?$/,
  MediaUrl: /^https?:\/\//,
  MessageIntent: ANY,
  MessagingServiceSid: ANY,
  PersistentAction: ANY,
  ProvideFeedback: BOOLEAN,
  RiskCheck: /^(enable|disable)$/,
  ScheduleType: /^fixed$/,
  SendAsMms: BOOLEAN,
  SendAt: DATE,
  ShortenUrls: BOOLEAN,
  SmartEncoded: BOOLEAN,
  StatusCallback: ANY,
  To: ANY,
  TrafficType: /^free$/,
  ValidityPeriod: NUMBER,
}
const LIST_PARAMETERS: Readonly<Record<string, RegExp>> = {
  DateSent: DATE,
  'DateSent<': DATE,
  'DateSent>': DATE,
  From: ANY,
  Page: NUMBER,
  PageSize: NUMBER,
  PageToken: ANY,
  To: ANY,
}
/** Parameters that may be repeated. */
const REPEATABLE = new Set(['MediaUrl', 'PersistentAction'])

/** Throws SmsRefusal if a parameter of a new message is unknown or invalid. */
export const checkMessage = (form: URLSearchParams) => check(form, MESSAGE_PARAMETERS)
/** Throws SmsRefusal if a parameter of a list is unknown or invalid. */
export const checkList = (query: URLSearchParams) => check(query, LIST_PARAMETERS)

function check(params: URLSearchParams, rules: Readonly<Record<string, RegExp>>): void {
  for (const name of new Set(params.keys())) {
    const values = params.getAll(name)
    if (!Object.hasOwn(rules, name)) throw smsInvalid(20001, `Unknown parameter: ${name}.`)
    if (values.length > 1 && !REPEATABLE.has(name)) throw smsInvalid(20001, `Several values of ${name}.`)
    if (!values.every((value) => rules[name]!.test(value)))
      throw smsInvalid(20001, `The value of ${name} is not valid.`)
  }
}
