// Values that are derived from a text that may change, like the secret in a variable.

/** Returns a function that returns `derive` of the present text. It calls `derive` only after the text has changed. */
export function deriveFrom<T>(currentText: () => string, derive: (text: string) => T): () => T {
  let last: { text: string; value: T } | undefined
  return () => {
    const text = currentText()
    if (last?.text !== text) last = { text, value: derive(text) }
    return last.value
  }
}
