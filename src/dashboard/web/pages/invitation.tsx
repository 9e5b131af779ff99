// Accepting an invitation to a tenant.
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useRouter } from '@tanstack/react-router'
import { useState } from 'react'
import { post } from '../api.ts'
import { usePathParam } from '../address.ts'
import { Bone } from '../kit/Bone.tsx'
import { DialogError } from '../kit/ConfirmDialog.tsx'
import { queryClient, useAnswer } from '../queries.ts'
import { AloneCard } from '../shell/AloneCard.tsx'

/** What `GET /api/invitations/{token}` tells of it. */
type InvitationView = { email: string; role: string; tenant?: { name: string } | string }

export function InvitationPage() {
  const token = usePathParam('token')
  const { history } = useRouter()
  const { data: invitation, error } = useAnswer<InvitationView>(`/invitations/${token}`)
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const accept = useMutation({
    mutationFn: () => post(`/invitations/${token}/accept`, { name: name.trim(), password }),
    onSuccess: () => {
      queryClient.clear()
      history.push('/')
    },
  })
  if (error !== null)
    return (
      <AloneCard title="This invitation cannot be used">
        <DialogError error={error} />
      </AloneCard>
    )
  const tenant = typeof invitation?.tenant === 'string' ? invitation.tenant : invitation?.tenant?.name
  return (
    <AloneCard title={tenant === undefined ? 'Accept the invitation' : `Join ${tenant}`}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault()
          accept.mutate()
        }}
      >
        <p className="dim">
          {invitation === undefined ? (
            <Bone width={220} />
          ) : (
            <>
              As {invitation.email}, with the role {invitation.role}.
            </>
          )}
        </p>
        <TextInput
          size="sm"
          label="Name"
          autoComplete="name"
          required
          withAsterisk={false}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <PasswordInput
          size="sm"
          label="Password"
          autoComplete="new-password"
          required
          withAsterisk={false}
          value={password}
          onChange={(event) => setPassword(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': 'Show what is typed' }}
        />
        {accept.error !== null && <DialogError error={accept.error} />}
        <Button type="submit" size="sm" variant="filled" fullWidth disabled={accept.isPending} mt={4}>
          Accept invitation
        </Button>
      </form>
    </AloneCard>
  )
}
