// Settings, Members: the members of the tenant, and its open invitations.
import { Button } from '@mantine/core'
import { UserPlus } from 'lucide-react'
import { useState } from 'react'
import type { Answers } from '../../generated/answers.ts'
import { useDialogs } from '../../dialogs.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList, type TableList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { addressOf, MODE } from '../../mode.ts'
import { useAnswer } from '../../queries.ts'
import { useMay, useRolesThatMay, useSession } from '../../session.tsx'
import {
  ChangeRoleDialog,
  InviteDialog,
  RemoveMemberDialog,
  RevokeInvitationDialog,
  type MemberRow,
} from './member-dialogs.tsx'

type MembersAnswer = Answers['GET /members']
type InvitationRow = MembersAnswer['invitations'][number]

export function MembersTab() {
  const may_manage = useMay('members.manage')
  const who_may = useRolesThatMay('members.manage')
  const { tenant } = useSession()
  const query = useAnswer<MembersAnswer>('/members')
  const { opening, begin, props } = useDialogs<'invite' | 'role' | 'remove' | 'revoke'>()
  const [member, setMember] = useState<MemberRow>()
  const [invitation, setInvitation] = useState<InvitationRow>()
  return (
    <>
      <div className="filters">
        <p className="dim">
          {may_manage ? (
            `The users of ${tenant?.name ?? 'this tenant'} and their roles.`
          ) : MODE === 'test' ? (
            <>
              Members and roles are those of both modes.{' '}
              <a href={addressOf('/settings/members', 'live')}>Change them in live mode</a>.
            </>
          ) : (
            `Only an ${who_may} can change members.`
          )}
        </p>
        {may_manage && (
          <div className="filters-end">
            <Button variant="filled" leftSection={<UserPlus size={14} />} onClick={() => begin('invite')}>
              Invite
            </Button>
          </div>
        )}
      </div>
      <MembersTable
        list={singlePageList(query, query.data?.members)}
        begin={(act, row) => {
          setMember(row)
          begin(act)
        }}
      />
      {query.data !== undefined && query.data.invitations.length > 0 && (
        <section className="section">
          <h2>Open invitations</h2>
          <InvitationsTable
            list={singlePageList(query, query.data.invitations)}
            revoke={(row) => {
              setInvitation(row)
              begin('revoke')
            }}
          />
        </section>
      )}
      <div key={opening}>
        <InviteDialog {...props('invite')} />
        {member && <ChangeRoleDialog {...props('role')} member={member} />}
        <RemoveMemberDialog {...props('remove')} member={member} />
        <RevokeInvitationDialog {...props('revoke')} email={invitation?.email} id={invitation?.id} />
      </div>
    </>
  )
}

function MembersTable({
  list,
  begin,
}: {
  list: TableList<MemberRow>
  begin: (act: 'role' | 'remove', row: MemberRow) => void
}) {
  const { user, roles_to_give } = useSession()
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
        roles_to_give.includes(row.role) && (
          <span className="row-buttons">
            <Button
              size="compact-xs"
              aria-label={`Change role of ${row.email}`}
              onClick={() => begin('role', row)}
            >
              Change role
            </Button>
            <Button size="compact-xs" aria-label={`Remove ${row.email}`} onClick={() => begin('remove', row)}>
              Remove
            </Button>
          </span>
        ),
    },
  ]
  return (
    <DataTable
      label="Members"
      list={list}
      columns={columns}
      rowKey={({ user_id }) => user_id}
      paged={false}
      empty={<EmptyState title="No members" />}
    />
  )
}

function InvitationsTable({
  list,
  revoke,
}: {
  list: TableList<InvitationRow>
  revoke: (row: InvitationRow) => void
}) {
  const { roles_to_give } = useSession()
  const columns: TableColumn<InvitationRow>[] = [
    { title: 'Email', cell: ({ email }) => <strong>{email}</strong>, clip: true },
    { title: 'Role', cell: ({ role }) => role },
    { title: 'Invited by', cell: ({ invited_by }) => invited_by ?? '–', clip: true },
    { title: 'Invited', cell: ({ created_at }) => <Instant at={created_at} /> },
    { title: 'Expires', cell: ({ expires_at }) => <Instant at={expires_at} /> },
    {
      title: '',
      align: 'end',
      cell: (row) =>
        roles_to_give.includes(row.role) && (
          <Button size="compact-xs" onClick={() => revoke(row)}>
            Revoke
          </Button>
        ),
    },
  ]
  return (
    <DataTable
      label="Open invitations"
      list={list}
      columns={columns}
      rowKey={({ id }) => id}
      paged={false}
      empty={null}
    />
  )
}
