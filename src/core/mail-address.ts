// The syntax of email headers: addresses, and single-line texts.
import { domainToUnicode } from 'node:url'
import { asciiDomain, bareAddress, isSameMailAddress } from './addresses.ts'
import { withoutInvisible } from './invisible.ts'

/** Characters that would end a header or a part of it. */
const CONTROL = /[\p{Cc}\p{Zl}\p{Zp}]/u

/** Whether a text can be the value of a header. */
export function isOneLine(text: string): boolean {
  return !CONTROL.test(text)
}

/**
 * Whether more than `max_length` visible characters follow each other without a blank at which a header can be
 * folded.
 */
export function hasLongWord(text: string, max_length: number): boolean {
  return text.split(/[^\x21-\x7e]/).some(({ length }) => length > max_length)
}

const MAX_NAME_LENGTH = 256
const MAX_LOCAL_PART_LENGTH = 64
const MAX_DOMAIN_LENGTH = 253
/** The maximum length of an address with its name. */
export const MAX_MAIL_ADDRESS_LENGTH = MAX_NAME_LENGTH + MAX_LOCAL_PART_LENGTH + MAX_DOMAIN_LENGTH + 4

const LOCAL_PART = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
const DOMAIN = /^[\p{L}\p{M}\p{N}.-]+$/u
const LABEL = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
/**
 * The characters of a name without quotes; other characters would turn the text into several addresses or a comment.
 */
const NAME = /^[^"\\,;:<>@()[\]]*$/
const QUOTED_NAME = /^"[^"\\]*"$/

/** Whether this is a syntactically valid address, with or without a name. */
export function isMailAddress(text: string): boolean {
  if (text.length > MAX_MAIL_ADDRESS_LENGTH || !isOneLine(text)) return false
  const bare = bareAddress(text)
  const name = text === bare ? '' : text.slice(0, -bare.length - 2).trim()
  if (text !== bare && !text.endsWith(`<${bare}>`)) return false
  if (name.length > MAX_NAME_LENGTH || !(NAME.test(name) || QUOTED_NAME.test(name))) return false
  const at = bare.lastIndexOf('@')
  const local = bare.slice(0, at)
  return local.length <= MAX_LOCAL_PART_LENGTH && LOCAL_PART.test(local) && isMailDomain(bare.slice(at + 1))
}

/** Whether this is a syntactically valid domain for email. */
export function isMailDomain(domain: string): boolean {
  if (!DOMAIN.test(domain)) return false
  const ascii = asciiDomain(domain)
  const labels = ascii.split('.')
  return (
    ascii.length <= MAX_DOMAIN_LENGTH &&
    labels.length >= 2 &&
    labels.every((label) => LABEL.test(label)) &&
    !/^\d+$/.test(labels.at(-1)!)
  )
}

/** Whether an address is this mailbox or a subaddress of it (`system+x@...`), or its name shows the mailbox. */
export function impersonates(address: string, mailbox: string): boolean {
  const [bare, mailbox_address] = [bareAddress(address), bareAddress(mailbox)]
  const main = `${localPart(bare).slice(0, localPart(mailbox_address).length)}@${domainOf(bare)}`
  const is_subaddress = localPart(bare)[localPart(mailbox_address).length] === '+'
  if (isSameMailAddress(is_subaddress ? main : bare, mailbox_address)) return true
  const name = address.slice(0, -bare.length - 1)
  const visible_name = withoutInvisible(name.normalize('NFKC')).toLowerCase()
  const domain = asciiDomain(domainOf(mailbox_address))
  return [domain, domainToUnicode(domain)].some((each) =>
    visible_name.includes(`${localPart(mailbox_address).toLowerCase()}@${each}`),
  )
}

/** Whether the name of an address is an encoded word (RFC 2047), which mail programs show as another name. */
export function hasEncodedName(address: string): boolean {
  return /=\?[^?]*\?[bq]\?/i.test(address.slice(0, -bareAddress(address).length))
}

/** The default sender of the system's own email: `system@` the domain of this address, with the same name. */
export function defaultSystemAddress(address: string): string {
  const bare = bareAddress(address)
  const at = address.lastIndexOf(bare)
  return `${address.slice(0, at)}system@${domainOf(bare)}${address.slice(at + bare.length)}`
}

function localPart(bare: string): string {
  return bare.slice(0, bare.lastIndexOf('@'))
}

function domainOf(bare: string): string {
  return bare.slice(bare.lastIndexOf('@') + 1)
}
