// The limits of templates.

/** The characters of one part. */
export const SOURCE_LIMIT = 100_000
/** The time that rendering one part takes, and the characters and values that it makes. */
export const RENDER_LIMIT_MS = 100
export const SIZE_LIMIT = 1_000_000
