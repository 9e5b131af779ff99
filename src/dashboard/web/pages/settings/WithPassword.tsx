// A dialog that requires the user's password for an act.
import { PasswordInput } from '@mantine/core'
import { useState, type ReactNode } from 'react'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'

/** A dialog that performs an act with the user's password. `children`: further fields, above the password. */
export function WithPassword<T>({
  act,
  children,
  ready = true,
  ...rest
}: Omit<Parameters<typeof ConfirmDialog<T>>[0], 'act' | 'children'> & {
  act: (password: string) => Promise<T>
  children?: ReactNode
}) {
  const [password, setPassword] = useState('')
  return (
    <ConfirmDialog {...rest} ready={ready && password !== ''} act={() => act(password)}>
      {children}
      <PasswordInput
        label="Password"
        autoComplete="current-password"
        {...(children === undefined && { 'data-autofocus': true })}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        visibilityToggleButtonProps={{ 'aria-label': 'Show password' }}
      />
    </ConfirmDialog>
  )
}
