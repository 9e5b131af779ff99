// The switch between live mode and test mode.
import { Switch } from '@mantine/core'
import { useLocation } from '@tanstack/react-router'
import { counterpartOf, MODE, openInMode } from '../mode.ts'

export function ModeSwitch() {
  const { pathname } = useLocation()
  const other = MODE === 'test' ? 'live' : 'test'
  return (
    <div className="nav-mode">
      <Switch
        label="Test mode"
        color="orange"
        checked={MODE === 'test'}
        onChange={() => openInMode(other, counterpartOf(pathname))}
      />
    </div>
  )
}
