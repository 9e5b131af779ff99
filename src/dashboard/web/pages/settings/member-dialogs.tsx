// The dialogs in which somebody is invited and a role is changed.
import { NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { askActed, ActedOutcome } from '../../kit/Acted.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { CopyField } from '../../kit/CopyField.tsx'
import { invalidate } from '../../queries.ts'
import { useSession } from '../../session.tsx'

export type MemberRow = Answers['GET /members']['members'][number]

type OfferedRole = MemberRow['role']

const ROLE_WORDS: Record<OfferedRole, string> = {
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
      description={ROLE_WORDS[role]}
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
      does={
        sends_email
          ? 'They get an email with a link that works once.'
          : 'Email is not set up here: you get a link to pass on, which works once.'
      }
      ready={email.trim() !== ''}
      act={() => askActed<Invited>('POST', '/members/invitations', { email: email.trim(), role })}
      shown_once={!sends_email}
      unknown="It is not known whether the invitation was created. Check the list below, and revoke any invitation that you do not recognize."
      onSettled={() => invalidate('/members')}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          {asked.data.link === null ? (
            `An invitation is on its way to ${asked.data.email}.`
          ) : (
            <div className="stack">
              <CopyField label="Invitation link" value={asked.data.link} />
              <p>Pass it on to {asked.data.email}: it is not shown again.</p>
            </div>
          )}
        </ActedOutcome>
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
      does={`Their role is ${before}. A new role applies from their next request.`}
      ready={role !== before}
      act={() => askActed('PATCH', `/members/${user_id}`, { role })}
      onDone={() => invalidate('/members', 'session')}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          {name} has the role {role}.
        </ActedOutcome>
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
      does={
        <>
          {member?.email} loses access to {tenant?.name ?? 'this tenant'} at once. Keys that they created keep
          working.
        </>
      }
      act={() => askActed('DELETE', `/members/${member?.user_id ?? ''}`)}
      onDone={() => invalidate('/members')}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          {member?.name} is no longer a member.
        </ActedOutcome>
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
      does="Its link stops working. You can invite them again."
      act={() => askActed('POST', `/members/invitations/${id}/revoke`, {})}
      onDone={() => invalidate('/members')}
      outcome={(asked) => (
        <ActedOutcome of={asked} also_accepted>
          The invitation is revoked.
        </ActedOutcome>
      )}
    />
  )
}
