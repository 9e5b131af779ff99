// Settings, Profile: the user's name, password, second factor, passkeys and sessions.
import { Button, Checkbox, PasswordInput, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useDialogs } from '../../dialogs.ts'
import { sendAct, notifyActDone } from '../../kit/ActResult.tsx'
import { ConfirmDialog, DialogError } from '../../kit/ConfirmDialog.tsx'
import { queryClient, SESSION_KEY } from '../../queries.ts'
import { useSession } from '../../session.tsx'
import { MIN_PASSWORD_LENGTH, MAX_NAME_CHARACTERS } from '../../limits.ts'
import { Passkeys } from './passkeys.tsx'
import { Sessions } from './sessions.tsx'
import { TwoFactor } from './two-factor.tsx'

export function ProfileTab() {
  return (
    <div className="profile">
      <NameForm />
      <Password />
      <TwoFactor />
      <Passkeys />
      <Sessions />
    </div>
  )
}

function NameForm() {
  const { user } = useSession()
  const [name, setName] = useState(user.name)
  const save = useMutation({
    mutationFn: () => sendAct('POST', '/auth/update-user', { name: name.trim() }),
    onSuccess: async (result) => {
      notifyActDone('Name saved.', result)
      await queryClient.invalidateQueries({ queryKey: SESSION_KEY })
    },
  })
  return (
    <section>
      <h2>Name</h2>
      <p className="dim">You sign in as {user.email}.</p>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          save.mutate()
        }}
      >
        <TextInput
          label="Name"
          autoComplete="name"
          maxLength={MAX_NAME_CHARACTERS}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        {save.error !== null && <DialogError error={save.error} />}
        <div>
          <Button type="submit" disabled={name.trim() === '' || name.trim() === user.name || save.isPending}>
            Save name
          </Button>
        </div>
      </form>
    </section>
  )
}

function Password() {
  const { opening, begin, props } = useDialogs<'password'>()
  return (
    <section>
      <h2>Password</h2>
      <p className="dim">At least {MIN_PASSWORD_LENGTH} characters. Changing it ends your other sessions.</p>
      <Button onClick={() => begin('password')}>Change password</Button>
      <PasswordDialog key={opening} {...props('password')} />
    </section>
  )
}

function PasswordDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [currentPassword, setCurrent] = useState('')
  const [newPassword, setNew] = useState('')
  const [remove_passkeys, setRemove] = useState(true)
  const show = { visibilityToggleButtonProps: { 'aria-label': 'Show password' } }
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Change your password"
      action="Change password"
      effect="The new password applies at once, and your other sessions end."
      ready={currentPassword !== '' && newPassword.length >= MIN_PASSWORD_LENGTH}
      act={() =>
        sendAct<{ passkeys: string[] }>('POST', '/auth/change-password', {
          currentPassword,
          newPassword,
          remove_passkeys,
        })
      }
      onDone={(result) => {
        const { passkeys } = result.data
        const left = passkeys.length === 0 ? '' : ` These passkeys still work: ${passkeys.join(', ')}.`
        notifyActDone(`Password changed.${left}`, result)
        return queryClient.invalidateQueries()
      }}
    >
      <PasswordInput
        label="Current password"
        autoComplete="current-password"
        data-autofocus
        value={currentPassword}
        onChange={(event) => setCurrent(event.currentTarget.value)}
        {...show}
      />
      <PasswordInput
        label="New password"
        description={`At least ${MIN_PASSWORD_LENGTH} characters.`}
        autoComplete="new-password"
        value={newPassword}
        onChange={(event) => setNew(event.currentTarget.value)}
        {...show}
      />
      <Checkbox
        label="Remove all passkeys too"
        description="A person who knew the old password may have added one."
        checked={remove_passkeys}
        onChange={(event) => setRemove(event.currentTarget.checked)}
      />
    </ConfirmDialog>
  )
}
