// The header's menus: colour scheme and account.
import { ActionIcon, Button, Menu, Popover, useMantineColorScheme } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { Check, CircleUserRound, Keyboard, LogOut, Monitor, Moon, Sun, UserRound } from 'lucide-react'
import { useState } from 'react'
import { post } from '../api.ts'
import { notify } from '../kit/notices.tsx'
import { queryClient } from '../queries.ts'
import { useSession } from '../session.tsx'

const SCHEMES = [
  { value: 'auto', title: 'System', icon: Monitor },
  { value: 'light', title: 'Light', icon: Sun },
  { value: 'dark', title: 'Dark', icon: Moon },
] as const

export function HeaderActions({ openHelp }: { openHelp: () => void }) {
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const Icon = SCHEMES.find(({ value }) => value === colorScheme)?.icon ?? Monitor
  return (
    <>
      <Menu>
        <Menu.Target>
          <ActionIcon aria-label="Colour scheme">
            <Icon size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {SCHEMES.map(({ value, title, icon: ItemIcon }) => (
            <Menu.Item
              key={value}
              leftSection={<ItemIcon size={14} />}
              rightSection={value === colorScheme ? <Check size={14} aria-label="chosen" /> : null}
              onClick={() => setColorScheme(value)}
            >
              {title}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Account openHelp={openHelp} />
    </>
  )
}

/** The account popover. Not a menu, so that its buttons keep their role. */
function Account({ openHelp }: { openHelp: () => void }) {
  const { user, version } = useSession()
  const navigate = useNavigate()
  const [opened, setOpened] = useState(false)

  async function signOut(): Promise<void> {
    try {
      await post('/auth/sign-out', {})
    } catch (error) {
      return notify({ tone: 'bad', text: String(error) })
    }
    await navigate({ to: '/sign-in' })
    queryClient.clear()
  }

  const acts = [
    { title: 'Profile', icon: UserRound, run: () => void navigate({ to: '/settings/profile' }) },
    { title: 'Keyboard', icon: Keyboard, run: openHelp },
    { title: 'Sign out', icon: LogOut, run: () => void signOut() },
  ]
  return (
    <Popover opened={opened} onChange={setOpened} trapFocus returnFocus>
      <Popover.Target>
        <ActionIcon aria-label="Account" onClick={() => setOpened(!opened)}>
          <CircleUserRound size={18} />
        </ActionIcon>
      </Popover.Target>
      <Popover.Dropdown className="account" aria-label="Account">
        <p className="dim">
          {user.name}
          <br />
          {user.email}
        </p>
        {acts.map(({ title, icon: ItemIcon, run }) => (
          <Button
            key={title}
            variant="subtle"
            color="gray"
            fullWidth
            justify="flex-start"
            leftSection={<ItemIcon size={14} />}
            onClick={() => {
              setOpened(false)
              run()
            }}
          >
            {title}
          </Button>
        ))}
        <p className="dim">Sluice {version}</p>
      </Popover.Dropdown>
    </Popover>
  )
}
