// The head of every page: in which colours, and as whom.
import { ActionIcon, Menu, useMantineColorScheme } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { Check, CircleUserRound, Keyboard, LogOut, Monitor, Moon, Sun, UserRound } from 'lucide-react'
import { post } from '../api.ts'
import { notify } from '../kit/notices.tsx'
import { queryClient } from '../queries.ts'
import { useSession } from '../session.tsx'

const SCHEMES = [
  { value: 'auto', title: 'System', icon: Monitor },
  { value: 'light', title: 'Light', icon: Sun },
  { value: 'dark', title: 'Dark', icon: Moon },
] as const

export function HeadActions({ openHelp }: { openHelp: () => void }) {
  const { user, version } = useSession()
  const { colorScheme, setColorScheme } = useMantineColorScheme()
  const navigate = useNavigate()
  const Icon = SCHEMES.find(({ value }) => value === colorScheme)?.icon ?? Monitor

  async function signOut(): Promise<void> {
    try {
      await post('/auth/sign-out', {})
    } catch (error) {
      return notify({ tone: 'bad', text: String(error) })
    }
    await navigate({ to: '/sign-in' })
    queryClient.clear()
  }

  return (
    <>
      <Menu>
        <Menu.Target>
          <ActionIcon aria-label="Colour scheme">
            <Icon size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {SCHEMES.map(({ value, title, icon: Shown }) => (
            <Menu.Item
              key={value}
              leftSection={<Shown size={14} />}
              rightSection={value === colorScheme ? <Check size={14} aria-label="chosen" /> : null}
              onClick={() => setColorScheme(value)}
            >
              {title}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      <Menu>
        <Menu.Target>
          <ActionIcon aria-label="Account">
            <CircleUserRound size={18} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>
            {user.name}
            <br />
            {user.email}
          </Menu.Label>
          <Menu.Item
            leftSection={<UserRound size={14} />}
            onClick={() => void navigate({ to: '/settings/profile' })}
          >
            Profile
          </Menu.Item>
          <Menu.Item leftSection={<Keyboard size={14} />} onClick={openHelp}>
            Keyboard
          </Menu.Item>
          <Menu.Item leftSection={<LogOut size={14} />} onClick={() => void signOut()}>
            Sign out
          </Menu.Item>
          <Menu.Divider />
          <Menu.Label>Sluice {version}</Menu.Label>
        </Menu.Dropdown>
      </Menu>
    </>
  )
}
