// The limits of passwords, and generated passwords.
import { randomInt } from 'node:crypto'

/** The lengths of passwords, in characters. */
export const PASSWORD_LENGTH = { min: 12, max: 256 }
/** The characters of generated passwords, without characters that look alike. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** A generated password: four groups of four characters, 80 random bits. */
export function newPassword(): string {
  const group = () => Array.from({ length: 4 }, () => LETTERS[randomInt(LETTERS.length)]).join('')
  return [group(), group(), group(), group()].join('-')
}
