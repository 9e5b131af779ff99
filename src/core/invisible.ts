// Invisible characters: with them, a person and a program read the same text differently.

/**
 * Characters that show as nothing or as a blank, or change the text direction. (U+2800 is a braille pattern without
 * dots.)
 */
const INVISIBLE = /[\s\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/u
const INVISIBLE_CHARACTERS = new RegExp(INVISIBLE, 'gu')

/** Whether a text has an invisible character or a blank. */
export function hasInvisible(text: string): boolean {
  return INVISIBLE.test(text)
}

/** The visible characters of the text, without blanks. */
export function withoutInvisible(text: string): string {
  return text.replaceAll(INVISIBLE_CHARACTERS, '')
}
