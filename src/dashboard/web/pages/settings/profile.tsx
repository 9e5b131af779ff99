// Settings, Profile: one's own name, password, second factor, passkeys and sessions.
import { Button, Checkbox, PasswordInput, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { useDialogs } from '../../dialogs.ts'
import { askActed, noteActed } from '../../kit/Acted.tsx'
import { ConfirmDialog, DialogError } from '../../kit/ConfirmDialog.tsx'
import { queryClient, SESSION_KEY } from '../../queries.ts'
import { useSession } from '../../session.tsx'
import { LEAST_PASSWORD, LONGEST_NAME } from '../../limits.ts'
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
    mutationFn: () => askActed('POST', '/auth/update-user', { name: name.trim() }),
    onSuccess: async (asked) => {
      noteActed('Name saved.', asked)
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
          maxLength={LONGEST_NAME}
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
      <p className="dim">At least {LEAST_PASSWORD} characters. Changing it ends your other sessions.</p>
      <Button onClick={() => begin('password')}>Change password</Button>
      <PasswordDialog key={opening} {...props('password')} />
    </section>
  )
}

function PasswordDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [currentPassword, setCurrent] = useState('')
  const [newPassword, setNew] = useState('')
  const [remove_passkeys, setRemove] = useState(true)
  const show = { visibilityToggleButtonProps: { 'aria-label': 'Show what is typed' } }
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title="Change your password"
      action="Change password"
      does="The new password applies at once, and your other sessions end."
      ready={currentPassword !== '' && newPassword.length >= LEAST_PASSWORD}
      act={() =>
        askActed<{ passkeys: string[] }>('POST', '/auth/change-password', {
          currentPassword,
          newPassword,
          remove_passkeys,
        })
      }
      onDone={(asked) => {
        const { passkeys } = asked.data
        const left = passkeys.length === 0 ? '' : ` These passkeys still work: ${passkeys.join(', ')}.`
        noteActed(`Password changed.${left}`, asked)
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
        description={`At least ${LEAST_PASSWORD} characters.`}
        autoComplete="new-password"
        value={newPassword}
        onChange={(event) => setNew(event.currentTarget.value)}
        {...show}
      />
      <Checkbox
        label="Remove all passkeys too"
        description="Whoever knew the old password may have added one."
        checked={remove_passkeys}
        onChange={(event) => setRemove(event.currentTarget.checked)}
      />
    </ConfirmDialog>
  )
}
