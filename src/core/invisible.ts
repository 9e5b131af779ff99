// Characters that a person who reads a text does not see: it reads as another text than a program takes.

/** What shows as nothing or as a blank, or turns what is around it about. (U+2800 is a braille pattern without dots.) */
const INVISIBLE = /[\s\p{Cc}\p{Cf}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]/u
const EVERY_INVISIBLE = new RegExp(INVISIBLE, 'gu')

/** Whether a text has an invisible character or a blank. */
export function hasInvisible(text: string): boolean {
  return INVISIBLE.test(text)
}

/** The text as it shows, without its blanks. */
export function withoutInvisible(text: string): string {
  return text.replaceAll(EVERY_INVISIBLE, '')
}
