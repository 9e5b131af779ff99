// Settings, Members: who belongs to the tenant, and who is invited.
import { Button } from '@mantine/core'
import { UserPlus } from 'lucide-react'
import { useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { useDialogs } from '../../dialogs.ts'
import { askActed, ActedOutcome } from '../../kit/Acted.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { wholeList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { invalidate, useAnswer } from '../../queries.ts'
import { useMay, useRolesThatMay, useSession } from '../../session.tsx'
import { ChangeRoleDialog, InviteDialog, type MemberRow } from './member-dialogs.tsx'

type MembersAnswer = Answers['GET /members']
type InvitationRow = MembersAnswer['invitations'][number]

export function MembersTab() {
  const may_manage = useMay('members.manage')
  const who_may = useRolesThatMay('members.manage')
  const { user, roles_to_give, tenant } = useSession()
  const query = useAnswer<MembersAnswer>('/members')
  const { opening, begin, props } = useDialogs<'invite' | 'role' | 'remove' | 'revoke'>()
  const [member, setMember] = useState<MemberRow>()
  const [invitation, setInvitation] = useState<InvitationRow>()
  const mayChange = (role: MemberRow['role']) => roles_to_give.includes(role)

  const columns: TableColumn<MemberRow>[] = [
    {
      title: 'Name',
      cell: ({ name, user_id }) => (
        <>
          <strong>{name}</strong> {user_id === user.id && <span className="dim">you</span>}
        </>
      ),
      clip: true,
    },
    {
      title: 'Email',
      cell: ({ email, email_verified }) => (
        <>
          {email} {!email_verified && <span className="dim">not verified</span>}
        </>
      ),
      clip: true,
    },
    { title: 'Role', cell: ({ role }) => role },
    {
      title: 'Two-factor',
      cell: ({ two_factor_enabled }) => (two_factor_enabled ? 'On' : <span className="dim">Off</span>),
    },
    { title: 'Member since', cell: ({ created_at }) => <Instant at={created_at} /> },
    {
      title: '',
      align: 'end',
      cell: (row) =>
        mayChange(row.role) && (
          <span className="row-buttons">
            <Button
              size="compact-xs"
              aria-label={`Change role of ${row.email}`}
              onClick={() => {
                setMember(row)
                begin('role')
              }}
            >
              Change role
            </Button>
            <Button
              size="compact-xs"
              aria-label={`Remove ${row.email}`}
              onClick={() => {
                setMember(row)
                begin('remove')
              }}
            >
              Remove
            </Button>
          </span>
        ),
    },
  ]
  const open: TableColumn<InvitationRow>[] = [
    { title: 'Email', cell: ({ email }) => <strong>{email}</strong>, clip: true },
    { title: 'Role', cell: ({ role }) => role },
    { title: 'Invited by', cell: ({ invited_by }) => invited_by ?? '–', clip: true },
    { title: 'Invited', cell: ({ created_at }) => <Instant at={created_at} /> },
    { title: 'Expires', cell: ({ expires_at }) => <Instant at={expires_at} /> },
    {
      title: '',
      align: 'end',
      cell: (row) =>
        mayChange(row.role) && (
          <Button
            size="compact-xs"
            onClick={() => {
              setInvitation(row)
              begin('revoke')
            }}
          >
            Revoke
          </Button>
        ),
    },
  ]

  return (
    <>
      <div className="filters">
        <p className="dim">
          {may_manage
            ? `Who can see ${tenant?.name ?? 'this tenant'}, and what they can do.`
            : `Only an ${who_may} can change members.`}
        </p>
        {may_manage && (
          <div className="filters-end">
            <Button variant="filled" leftSection={<UserPlus size={14} />} onClick={() => begin('invite')}>
              Invite
            </Button>
          </div>
        )}
      </div>
      <DataTable
        label="Members"
        list={wholeList(query, query.data?.members)}
        columns={columns}
        rowKey={({ user_id }) => user_id}
        paged={false}
        empty={<EmptyState title="No members" />}
      />
      {query.data !== undefined && query.data.invitations.length > 0 && (
        <section className="section">
          <h2>Open invitations</h2>
          <DataTable
            label="Open invitations"
            list={wholeList(query, query.data.invitations)}
            columns={open}
            rowKey={({ id }) => id}
            paged={false}
            empty={null}
          />
        </section>
      )}
      <div key={opening}>
        <InviteDialog {...props('invite')} />
        {member && <ChangeRoleDialog {...props('role')} member={member} />}
        <ConfirmDialog
          {...props('remove')}
          title={`Remove ${member?.name ?? 'this member'}?`}
          action="Remove"
          tone="bad"
          does={
            <>
              {member?.email} loses access to {tenant?.name ?? 'this tenant'} at once. Keys that they created
              keep working.
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
        <ConfirmDialog
          {...props('revoke')}
          title={`Revoke the invitation for ${invitation?.email ?? 'this person'}?`}
          action="Revoke"
          tone="bad"
          does="Its link stops working. You can invite them again."
          act={() => askActed('POST', `/members/invitations/${invitation?.id ?? ''}/revoke`, {})}
          onDone={() => invalidate('/members')}
          outcome={(asked) => (
            <ActedOutcome of={asked} also_accepted>
              The invitation is revoked.
            </ActedOutcome>
          )}
        />
      </div>
    </>
  )
}
