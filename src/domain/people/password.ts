// The limits of passwords, and generated passwords.
import { randomInt } from 'node:crypto'

/** In characters. */
export const PASSWORD_LENGTH = { min: 12, max: 256 }
/** Without letters that look alike. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** Four groups of four letters: 80 bits. */
export function newPassword(): string {
  const group = () => Array.from({ length: 4 }, () => LETTERS[randomInt(LETTERS.length)]).join('')
  return [group(), group(), group(), group()].join('-')
}
