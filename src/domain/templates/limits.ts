// The limits of templates.

/** The maximum number of characters of one part. */
export const MAX_SOURCE_LENGTH = 100_000
/**
 * The maximum number of steps to render one part: a step is a text, a tag or an output, counted per iteration of a
 * loop.
 */
export const MAX_RENDER_STEPS = 200_000
/** The maximum number of characters and values that rendering one part may create. */
export const MAX_RENDERED_SIZE = 1_000_000
