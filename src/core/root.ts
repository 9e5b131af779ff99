/** The URL of the project's folder. This file is in `src/core`, and once it is built, in a file of `dist/server`. */
export const ROOT = new URL('../../', import.meta.url)
