// Accepts an invitation to a tenant, as a new or an existing user.
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { Link, useRouter } from '@tanstack/react-router'
import { useState } from 'react'
import { post, read } from '../api.ts'
import { usePathParam } from '../address.ts'
import type { Answers } from '../generated/answers.ts'
import { Skeleton } from '../kit/Skeleton.tsx'
import { DialogError } from '../kit/ConfirmDialog.tsx'
import { addressOf } from '../mode.ts'
import { queryClient, useAnswer } from '../queries.ts'
import { useSessionQuery, type WebSession } from '../session.tsx'
import { StandaloneCard } from '../shell/StandaloneCard.tsx'
import { MIN_PASSWORD_LENGTH, MAX_NAME_CHARACTERS } from '../limits.ts'

/** `has_user`: whether the email address has an account; null: not disclosed. */
type InvitationView = Answers['GET /invitations/{token}']

export function InvitationPage() {
  const token = usePathParam('token')
  const { data: invitation, error } = useAnswer<InvitationView>(`/invitations/${token}`)
  if (error !== null)
    return (
      <StandaloneCard title="This invitation cannot be used">
        <DialogError error={error} />
        <Link to="/sign-in">Go to sign-in</Link>
      </StandaloneCard>
    )
  return (
    <StandaloneCard title={invitation === undefined ? 'Accept the invitation' : `Join ${invitation.tenant}`}>
      <p className="dim" style={{ marginBottom: 12 }}>
        {invitation === undefined ? (
          <Skeleton width={220} />
        ) : (
          <>
            As {invitation.email}, with the role {invitation.role}.
          </>
        )}
      </p>
      {invitation?.has_user === false && <NewUser token={token} email={invitation.email} />}
      {invitation?.has_user === null && <InvitedUser token={token} invitation={invitation} />}
      {invitation?.has_user === true && <ExistingUser token={token} invitation={invitation} />}
    </StandaloneCard>
  )
}

function NewUser({ token, email }: { token: string; email: string }) {
  const { history } = useRouter()
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const accept = useMutation({
    async mutationFn() {
      await post(`/invitations/${token}/accept`, { name: name.trim(), password })
      await post('/auth/sign-in/email', { email, password })
    },
    onSuccess() {
      queryClient.clear()
      history.push(addressOf('/'))
    },
  })
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        accept.mutate()
      }}
    >
      {/* Password managers store the account under this email address. */}
      <input type="email" name="email" autoComplete="username" value={email} readOnly hidden />
      <TextInput
        size="sm"
        label="Name"
        autoComplete="name"
        required
        withAsterisk={false}
        maxLength={MAX_NAME_CHARACTERS}
        value={name}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      <PasswordInput
        size="sm"
        label="Password"
        description={`At least ${MIN_PASSWORD_LENGTH} characters.`}
        autoComplete="new-password"
        required
        withAsterisk={false}
        minLength={MIN_PASSWORD_LENGTH}
        maxLength={256}
        value={password}
        onChange={(event) => setPassword(event.currentTarget.value)}
        visibilityToggleButtonProps={{ 'aria-label': 'Show password' }}
      />
      {accept.error !== null && <DialogError error={accept.error} />}
      <Button type="submit" size="sm" variant="filled" fullWidth disabled={accept.isPending} mt={4}>
        Accept invitation
      </Button>
    </form>
  )
}

/** It is not disclosed whether the email address has an account. */
function InvitedUser(props: { token: string; invitation: InvitationView }) {
  const { data: session, isPending } = useSessionQuery()
  const { email } = props.invitation
  if (isPending) return <Skeleton width="100%" height={36} />
  if (session?.user.email === email) return <ExistingUser {...props} />
  return (
    <>
      <p style={{ marginBottom: 12 }}>
        If you have an account,{' '}
        <Link to={`/sign-in?to=${encodeURIComponent(`/invitation/${props.token}`)}`}>sign in</Link> first.
      </p>
      <NewUser token={props.token} email={email} />
    </>
  )
}

function ExistingUser({ token, invitation: { email } }: { token: string; invitation: InvitationView }) {
  const { history } = useRouter()
  const { data: session, isPending } = useSessionQuery()
  const accept = useMutation({
    async mutationFn() {
      const previous_ids = new Set(session?.tenants.map(({ id }) => id))
      await post(`/invitations/${token}/accept`)
      // Selects the tenant that the user has just joined.
      const { tenants } = await read<WebSession>('/session')
      const joined = tenants.find(({ id }) => !previous_ids.has(id))
      if (joined !== undefined) await post('/session/tenant', { tenant_id: joined.id })
    },
    onSuccess() {
      queryClient.clear()
      history.push(addressOf('/'))
    },
  })
  if (isPending) return <Skeleton width="100%" height={36} />
  if (session?.user.email === email)
    return (
      <div className="stack">
        {accept.error !== null && <DialogError error={accept.error} />}
        <Button
          size="sm"
          variant="filled"
          fullWidth
          disabled={accept.isPending}
          onClick={() => accept.mutate()}
        >
          Accept invitation
        </Button>
      </div>
    )
  const signIn = () => history.push(addressOf(`/sign-in?to=${encodeURIComponent(`/invitation/${token}`)}`))
  return (
    <div className="stack">
      <p>
        {session === undefined
          ? 'You already have an account. Sign in to accept.'
          : `You are signed in as ${session.user.email}. The invitation is for ${email}.`}
      </p>
      <Button
        size="sm"
        variant="filled"
        fullWidth
        onClick={() => {
          if (session === undefined) signIn()
          else
            void post('/auth/sign-out', {}).finally(() => {
              queryClient.clear()
              signIn()
            })
        }}
      >
        {session === undefined ? 'Sign in' : `Sign in as ${email}`}
      </Button>
    </div>
  )
}
