// The limits of templates.

/** The characters of one part. */
export const SOURCE_LIMIT = 100_000
/** The steps of rendering one part (a text, a tag, an output; in a loop each time), and the characters and values that it makes. */
export const STEP_LIMIT = 200_000
export const SIZE_LIMIT = 1_000_000
