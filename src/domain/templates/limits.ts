// The limits of templates.

/** The characters of one part. */
export const MAX_SOURCE_LENGTH = 100_000
/** The steps of rendering one part (a text, a tag, an output; in a loop each time), and the characters and values that it makes. */
export const MAX_RENDER_STEPS = 200_000
export const MAX_RENDERED_SIZE = 1_000_000
