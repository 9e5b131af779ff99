// The tabs of messages, templates and suppressions, each with its own address.
import { Tabs } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import type { ReactNode } from 'react'

const TABS = [
  { to: '/messages', title: 'Messages' },
  { to: '/messages/templates', title: 'Templates' },
  { to: '/messages/suppressions', title: 'Suppressions' },
]

export function MessagesTabs({ active, children }: { active: string; children: ReactNode }) {
  const navigate = useNavigate()
  return (
    <Tabs value={active} onChange={(to) => void navigate({ to: to ?? '/messages' })}>
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
