// Parses the value of a variable.
import { describeIssue } from '../describe.ts'
import { list } from './list.ts'
import { SECRETS } from './row.ts'
import { VARIABLES, type VariableName } from './variables.ts'

/** The end of a text that documentation shows in place of a secret: `sk_live_...`, `<your token>`. */
const PLACEHOLDER = /(?:\.\.\.|…|<[^<>]*>)$/
/** A URL, with its user and password, which may contain a slash in a placeholder. */
const URL_WITH_USER = /^[a-z+]+:\/\/(?:([^@?#]*)@)?/i

/** The value of a variable by its schema, or the problem of the text. */
export function parseVariable(
  name: VariableName,
  text: string | undefined,
): { data: unknown } | { problem: string } {
  const [schema, example] = VARIABLES[name]
  // Before the schema: the reason is more helpful than that of a pattern.
  if (text !== undefined && SECRETS.has(schema)) {
    if (isPlaceholder(text))
      return { problem: 'must be the real value, and no placeholder that ends in dots or angle brackets' }
    if (isExample(text, example))
      return { problem: 'must be the real value, and not that of the documentation' }
  }
  const parsed = schema.safeParse(text, { error: describeIssue })
  return parsed.success ? { data: parsed.data } : { problem: parsed.error.issues[0]!.message }
}

/** Whether a secret was copied from documentation: one of its values, or a part of a URL, is a placeholder. */
function isPlaceholder(text: string): boolean {
  const parts = URL_WITH_USER.test(text) ? partsOfUrl(text) : list(text)
  return parts.some((part) => PLACEHOLDER.test(part))
}

/** Whether one of the values of a secret is its example, which everybody knows. A URL may be that of a local server. */
function isExample(text: string, example: string): boolean {
  return !URL_WITH_USER.test(text) && list(text).some((part) => list(example).includes(part))
}

/** The user, password and parameters of a URL, and its end. */
function partsOfUrl(url: string): string[] {
  const [, user = ''] = URL_WITH_USER.exec(url) ?? []
  return [...user.split(':'), ...url.split(/[?&]/)].map((part) => {
    try {
      return decodeURIComponent(part)
    } catch {
      return part
    }
  })
}
