// Indented JSON with syntax highlighting.
import { CodeBlock } from './CodeBlock.tsx'

/** Any value as JSON, with a copy button. */
export function Json({ value, label = 'JSON' }: { value: unknown; label?: string }) {
  const text = JSON.stringify(value, null, 2) ?? 'null'
  return <CodeBlock text={text} highlighted={highlight(text)} label={label} />
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(\btrue\b|\bfalse\b|\bnull\b)/g

function highlight(text: string) {
  const elements = []
  let end = 0
  for (const { 0: token, 1: string, 2: colon, 3: number, index } of text.matchAll(TOKEN)) {
    elements.push(text.slice(end, index))
    const kind = colon !== undefined ? 'key' : string !== undefined ? 'string' : number ? 'number' : 'word'
    elements.push(
      <span key={index} className={`json-${kind}`}>
        {token}
      </span>,
    )
    end = index + token.length
  }
  return [...elements, text.slice(end)]
}
