// The tabs of the sandbox, each with its own address.
import { Tabs } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'

export const SANDBOX_TEXT = 'What buyers, banks, verified persons and phones do in live mode, you do here.'

const TABS = [
  { to: '/sandbox', title: 'Inbox' },
  { to: '/sandbox/payments', title: 'Payments' },
  { to: '/sandbox/payouts', title: 'Payouts' },
  { to: '/sandbox/verifications', title: 'Verifications' },
  { to: '/sandbox/clock', title: 'Clock' },
]

export function SandboxTabs({ active, children }: { active: string; children: ReactNode }) {
  const navigate = useNavigate()
  return (
    <Tabs value={active} onChange={(to) => void navigate({ to: to ?? '/sandbox' })}>
      <Tabs.List mb="md">
        {TABS.map(({ to, title }) => (
          <Tabs.Tab key={to} value={to}>
            {title}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {TABS.map(({ to }) => (
        <Tabs.Panel key={to} value={to}>
          {children}
        </Tabs.Panel>
      ))}
    </Tabs>
  )
}
