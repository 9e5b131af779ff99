// The parameters that Twilio knows of a message and of a list of messages. Sources: `MessageListInstanceCreateOptions` and
// `MessageListInstancePageOptions` of twilio 6.2, and Twilio's OpenAPI description (patterns, numbers, enumerations).
import { smsInvalid } from './errors.ts'

const BOOLEAN = /^(true|false)$/
const ANY = /^/s
/** `1` and its like; a time may have any form of ISO 8601. */
const NUMBER = /^\d{1,9}$/
const DATE = /^\d{4}-\d{2}-\d{2}/
const sid = (prefix: string) => new RegExp(`^${prefix}[0-9a-fA-F]{32}$`)

/** What each may be; where Twilio has a code of its own for a value, it is refused elsewhere. */
const OF_MESSAGES: Readonly<Record<string, RegExp>> = {
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
const LIST_ARGUMENT_FILTERS: Readonly<Record<string, RegExp>> = {
  DateSent: DATE,
  'DateSent<': DATE,
  'DateSent>': DATE,
  From: ANY,
  Page: NUMBER,
  PageSize: NUMBER,
  PageToken: ANY,
  To: ANY,
}
/** These may be given several times. */
const LISTS = new Set(['MediaUrl', 'PersistentAction'])

export const checkMessage = (form: URLSearchParams) => check(form, OF_MESSAGES)
export const checkList = (query: URLSearchParams) => check(query, LIST_ARGUMENT_FILTERS)

function check(given: URLSearchParams, known: Readonly<Record<string, RegExp>>): void {
  for (const name of new Set(given.keys())) {
    const values = given.getAll(name)
    if (!Object.hasOwn(known, name)) throw smsInvalid(20001, `Unknown parameter: ${name}.`)
    if (values.length > 1 && !LISTS.has(name)) throw smsInvalid(20001, `Several values of ${name}.`)
    if (!values.every((value) => known[name]!.test(value)))
      throw smsInvalid(20001, `The value of ${name} is not valid.`)
  }
}
