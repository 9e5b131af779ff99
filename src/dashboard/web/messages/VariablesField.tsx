// The variables of a template, typed as JSON.
import { JsonInput } from '@mantine/core'

/** An object of JSON; undefined where the text is none. */
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
