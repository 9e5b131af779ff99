// The field for the reason of an act.
import { Textarea } from '@mantine/core'

/** `required`: for acts of operators, which are always audited with a reason. */
export function ReasonField({
  value,
  onChange,
  description,
  error,
  required = false,
}: {
  value: string
  onChange: (reason: string) => void
  description?: string
  error?: string | undefined
  required?: boolean
}) {
  return (
    <Textarea
      label="Reason"
      description={description}
      maxLength={1000}
      value={value}
      error={error}
      onChange={(event) => onChange(event.currentTarget.value)}
      {...(required ? { autosize: true, required: true } : { rows: 2, 'data-autofocus': true })}
    />
  )
}
