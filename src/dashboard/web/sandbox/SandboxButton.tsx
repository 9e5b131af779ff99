// The button of an act in the sandbox.
import { Button } from '@mantine/core'
import { useMayActAtProcessor } from './acts.ts'

/** `allowed`: whether the status of the row allows the act. Renders nothing otherwise, and nothing in live mode. */
export function SandboxButton({
  label,
  allowed,
  begin,
  size = 'xs',
}: {
  label: string
  allowed: boolean
  begin: () => void
  size?: 'xs' | 'compact-xs'
}) {
  const may_act = useMayActAtProcessor()
  if (!may_act || !allowed) return null
  return (
    <Button size={size} onClick={begin}>
      {label}
    </Button>
  )
}
