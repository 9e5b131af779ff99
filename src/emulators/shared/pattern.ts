// Regular expressions of requests.

/** Null when there is none. A text that is no regular expression is refused in the name of `param`. */
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
