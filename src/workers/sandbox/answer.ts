// Reads the answers of sandboxes.
import { NoAnswer, parseJsonBody, type HttpAnswer } from '#providers/http.ts'

type TextAnswer = { status: number; headers: Record<string, string>; body: string }

/** Reads an answer under the rules for answers of servers. Throws NoAnswer. */
export function readAnswer({ status, headers, body: text }: TextAnswer, max_bytes: number): HttpAnswer {
  const bytes = Buffer.from(text)
  const fail = (reason: string) => new NoAnswer(reason, { sent: true, status })
  if (bytes.length > max_bytes) throw fail(`the answer is longer than ${max_bytes} bytes`)
  const body = parseJsonBody(bytes)
  if (body === null) throw fail('the sandbox answered with no JSON object')
  return { status, headers, body }
}
