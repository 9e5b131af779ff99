// A field for the variables of a template, as JSON.
import { JsonInput } from '@mantine/core'

/** Parses a JSON object. Undefined: the text is not one. */
export function parseVariables(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text.trim() === '' ? '{}' : text)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch {
    return undefined
  }
}

export function VariablesField({ value, onChange }: { value: string; onChange: (text: string) => void }) {
  return (
    <JsonInput
      size="xs"
      label="Variables"
      description="A JSON object."
      placeholder='{ "name": "Ada" }'
      error={parseVariables(value) === undefined && 'This is not a JSON object.'}
      classNames={{ input: 'mono' }}
      autosize
      minRows={3}
      maxRows={12}
      value={value}
      onChange={onChange}
    />
  )
}
