// Dialogs that invite a user, change a role, remove a member and revoke an invitation.
import { NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { sendAct, ActResultText } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { CopyField } from '../../kit/CopyField.tsx'
import { invalidate } from '../../queries.ts'
import { useSession } from '../../session.tsx'

export type MemberRow = Answers['GET /members']['members'][number]

type OfferedRole = MemberRow['role']

const ROLE_DESCRIPTIONS: Record<OfferedRole, string> = {
  owner: 'Everything, including members and roles',
  admin: 'Everything except owners',
  developer: 'Read everything; keys, webhook endpoints, templates and replays',
  support: 'Read everything; capture, cancel, refund, decide verifications',
  'read-only': 'Read everything',
}

function RoleField({ role, set }: { role: OfferedRole; set: (role: OfferedRole) => void }) {
  const { roles_to_give } = useSession()
  return (
    <NativeSelect
      label="Role"
      description={ROLE_DESCRIPTIONS[role]}
      data={roles_to_give}
      value={role}
      onChange={(event) => set(event.currentTarget.value as OfferedRole)}
    />
  )
}

type Invited = Answers['POST /members/invitations']

export function InviteDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { tenant, sends_email } = useSession()
  const [email, setEmail] = useState('')
  const [role, setRole] = useState<OfferedRole>('read-only')
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`Invite someone to ${tenant?.name ?? 'this tenant'}`}
      action="Send invitation"
      effect={
        sends_email
          ? 'They get an email with a link that works once.'
          : 'Email is not set up here: you get a link to pass on, which works once.'
      }
      ready={email.trim() !== ''}
      act={() => sendAct<Invited>('POST', '/members/invitations', { email: email.trim(), role })}
      shown_once={!sends_email}
      unknown="It is unknown whether the invitation was created. Check the list below, and revoke any invitation that you do not recognize."
      onSettled={() => invalidate('/members')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {result.data.link === null ? (
            `An invitation is on its way to ${result.data.email}.`
          ) : (
            <div className="stack">
              <CopyField label="Invitation link" value={result.data.link} />
              <p>Pass it on to {result.data.email}: it is not shown again.</p>
            </div>
          )}
        </ActResultText>
      )}
    >
      <TextInput
        type="email"
        label="Email"
        data-autofocus
        value={email}
        onChange={(event) => setEmail(event.currentTarget.value)}
      />
      <RoleField role={role} set={setRole} />
    </ConfirmDialog>
  )
}

export function ChangeRoleDialog({
  opened,
  onClose,
  member: { user_id, name, role: before },
}: {
  opened: boolean
  onClose: () => void
  member: MemberRow
}) {
  const [role, setRole] = useState(before)
  return (
    <ConfirmDialog
      opened={opened}
      onClose={onClose}
      title={`Change the role of ${name}?`}
      action="Change role"
      effect={`Their role is ${before}. A new role applies from their next request.`}
      ready={role !== before}
      act={() => sendAct('PATCH', `/members/${user_id}`, { role })}
      onDone={() => invalidate('/members', 'session')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {name} has the role {role}.
        </ActResultText>
      )}
    >
      <RoleField role={role} set={setRole} />
    </ConfirmDialog>
  )
}

export function RemoveMemberDialog({
  member,
  ...dialog
}: {
  opened: boolean
  onClose: () => void
  member: MemberRow | undefined
}) {
  const { tenant } = useSession()
  return (
    <ConfirmDialog
      {...dialog}
      title={`Remove ${member?.name ?? 'this member'}?`}
      action="Remove"
      tone="bad"
      effect={
        <>
          {member?.email} loses access to {tenant?.name ?? 'this tenant'} at once. Keys that they created keep
          working.
        </>
      }
      act={() => sendAct('DELETE', `/members/${member?.user_id ?? ''}`)}
      onDone={() => invalidate('/members')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          {member?.name} is no longer a member.
        </ActResultText>
      )}
    />
  )
}

export function RevokeInvitationDialog({
  id = '',
  email = 'this person',
  ...dialog
}: {
  opened: boolean
  onClose: () => void
  id: string | undefined
  email: string | undefined
}) {
  return (
    <ConfirmDialog
      {...dialog}
      title={`Revoke the invitation for ${email}?`}
      action="Revoke"
      tone="bad"
      effect="Its link stops working. You can invite them again."
      act={() => sendAct('POST', `/members/invitations/${id}/revoke`, {})}
      onDone={() => invalidate('/members')}
      outcome={(result) => (
        <ActResultText of={result} true_if_accepted>
          The invitation is revoked.
        </ActResultText>
      )}
    />
  )
}
