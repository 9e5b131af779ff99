// The button of the sandbox for one payout.
import { Button } from '@mantine/core'
import type { Payout } from '#sdk/index.ts'
import { isFailable, useMayActAtProcessor } from './acts.ts'

/** Renders nothing in live mode. */
export function SandboxPayoutButton({
  payout,
  begin,
  size = 'xs',
}: {
  payout: Payout
  begin: () => void
  size?: 'xs' | 'compact-xs'
}) {
  const may_act = useMayActAtProcessor()
  if (!may_act || !isFailable(payout)) return null
  return (
    <Button size={size} onClick={begin}>
      Fail payout
    </Button>
  )
}
