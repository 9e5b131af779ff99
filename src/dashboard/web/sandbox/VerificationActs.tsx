// The button of the sandbox for one verification.
import { Button } from '@mantine/core'
import type { Verification } from '#sdk/index.ts'
import { isCompletable, useMayActAtProcessor } from './acts.ts'

/** Renders nothing in live mode. */
export function SandboxVerificationButton({
  verification,
  begin,
  size = 'xs',
}: {
  verification: Verification
  begin: () => void
  size?: 'xs' | 'compact-xs'
}) {
  const may_act = useMayActAtProcessor()
  if (!may_act || !isCompletable(verification)) return null
  return (
    <Button size={size} onClick={begin}>
      Complete verification
    </Button>
  )
}
