// A connection without a database, for tests of loops with a fake clock.
import type { Sql } from '#core/db.ts'

/** A part of a statement, with the text of its own parts. */
type Part = { text: string }

/**
 * A connection whose statements are answered by `answer`, by their text and their values. What it leaves unanswered is
 * a part of a statement. `begin` answers transactions.
 */
export function fakeConnection(
  answer: (text: string, values: unknown[]) => Promise<unknown> | undefined,
  begin: () => Promise<unknown> = () => Promise.reject(new Error('no transaction is expected')),
): Sql {
  const tagged = (strings: TemplateStringsArray | string | string[], ...values: unknown[]) => {
    // The name of a table, or of columns.
    if (typeof strings === 'string' || !('raw' in strings)) return { text: '' }
    const text = strings.map((string, nth) => string + textOf(values[nth])).join('')
    return answer(text, values) ?? { text }
  }
  const methods = { json: (value: unknown) => value, unsafe: (text: string): Part => ({ text }), begin }
  return Object.assign(tagged, methods) as unknown as Sql
}

function textOf(value: unknown): string {
  return typeof value === 'object' && value !== null && 'text' in value ? (value as Part).text : ''
}

/** Whether a statement reads only recent rows. */
export function readsRecentRows(text: string): boolean {
  return /> now\(\) - +\* interval '1 second'/.test(text)
}
