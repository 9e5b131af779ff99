// Parses regular expressions of requests.

/**
 * The regular expression of a text; null without a text. Throws the error of `refuse` if the text is not a regular
 * expression.
 */
export function patternOf(
  text: unknown,
  param: string,
  refuse: (message: string, param: string) => Error,
): RegExp | null {
  if (typeof text !== 'string') return null
  try {
    return new RegExp(text)
  } catch (error) {
    throw refuse(`Invalid ${param}: ${error instanceof Error ? error.message : String(error)}`, param)
  }
}
