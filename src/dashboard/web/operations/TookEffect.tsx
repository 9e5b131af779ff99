// The field in which an operator states whether a call took effect at the provider.
import { Radio, Stack } from '@mantine/core'

export function TookEffect({
  value,
  onChange,
}: {
  value: boolean | undefined
  onChange: (took_effect: boolean) => void
}) {
  return (
    <Radio.Group
      label="What does the provider show?"
      value={value === undefined ? null : String(value)}
      onChange={(chosen) => onChange(chosen === 'true')}
    >
      <Stack gap={4} mt={4}>
        <Radio value="true" label="It took effect" />
        <Radio value="false" label="It did not take effect" />
      </Stack>
    </Radio.Group>
  )
}
