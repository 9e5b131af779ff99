// What a password may be, and those that we make up for people.
import { randomInt } from 'node:crypto'

/** In characters. */
export const PASSWORD_LENGTH = { min: 12, max: 256 }
/** Without those that look like others. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** Four groups of four letters: 80 bits. */
export function newPassword(): string {
  const group = () => Array.from({ length: 4 }, () => LETTERS[randomInt(LETTERS.length)]).join('')
  return [group(), group(), group(), group()].join('-')
}
