// The user's sessions.
import { Button } from '@mantine/core'
import { useState } from 'react'
import { useDialogs } from '../../dialogs.ts'
import { sendAct, notifyActDone } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList, type TableList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { invalidate, useAnswer } from '../../queries.ts'
import { useSession } from '../../session.tsx'
import { counted } from '../../kit/counts.ts'

type OwnSession = {
  id: string
  token: string
  createdAt: string
  updatedAt: string
  expiresAt: string
  ipAddress?: string | null
  userAgent?: string | null
}

const LIST = '/auth/list-sessions'

export function Sessions() {
  const { session_id } = useSession()
  const query = useAnswer<OwnSession[]>(LIST)
  const { opening, begin, props } = useDialogs<'one' | 'others'>()
  const [ended, setEnded] = useState<OwnSession>()
  // The current session first, then the most recently used.
  const rows = query.data?.toSorted(
    (a, b) =>
      Number(b.id === session_id) - Number(a.id === session_id) || b.updatedAt.localeCompare(a.updatedAt),
  )
  const others = (rows?.length ?? 1) - 1
  return (
    <section>
      <h2>Sessions</h2>
      <p className="dim">
        Where you are signed in. End any that you do not recognize, then change your password.
      </p>
      <SessionsTable
        list={singlePageList(query, rows)}
        end={(row) => {
          setEnded(row)
          begin('one')
        }}
      />
      <Button disabled={others === 0} onClick={() => begin('others')}>
        End all other sessions
      </Button>
      <div key={opening}>
        <ConfirmDialog
          {...props('one')}
          title="End this session?"
          action="End session"
          tone="bad"
          effect={`${browserOf(ended?.userAgent)} at ${ended?.ipAddress || 'an unknown address'} is signed out at once.`}
          act={() => sendAct('POST', '/auth/revoke-session', { token: ended?.token })}
          onDone={(result) => {
            notifyActDone('Session ended.', result)
            return invalidate(LIST)
          }}
        />
        <ConfirmDialog
          {...props('others')}
          title="End all other sessions?"
          action="End all other sessions"
          tone="bad"
          effect={`${counted(others, 'session is', 'sessions are')} signed out at once; this session continues.`}
          act={() => sendAct('POST', '/auth/revoke-other-sessions', {})}
          onDone={(result) => {
            notifyActDone('Sessions ended.', result)
            return invalidate(LIST)
          }}
        />
      </div>
    </section>
  )
}

function SessionsTable({ list, end }: { list: TableList<OwnSession>; end: (session: OwnSession) => void }) {
  const { session_id } = useSession()
  const columns: TableColumn<OwnSession>[] = [
    {
      title: 'Browser',
      cell: ({ id, userAgent }) => (
        <span title={userAgent ?? undefined}>
          <strong>{browserOf(userAgent)}</strong> {id === session_id && <span className="dim">this one</span>}
        </span>
      ),
      clip: true,
    },
    { title: 'Address', cell: ({ ipAddress }) => <span className="mono">{ipAddress || '–'}</span> },
    { title: 'Signed in', cell: ({ createdAt }) => <Instant at={createdAt} /> },
    { title: 'Expires', cell: ({ expiresAt }) => <Instant at={expiresAt} /> },
    {
      title: '',
      align: 'end',
      cell: (row) =>
        row.id !== session_id && (
          <Button size="compact-xs" onClick={() => end(row)}>
            End session
          </Button>
        ),
    },
  ]
  return (
    <DataTable
      label="Sessions"
      list={list}
      columns={columns}
      rowKey={({ id }) => id}
      paged={false}
      empty={<EmptyState title="No sessions" />}
    />
  )
}

const BROWSERS = [
  ['Edg/', 'Edge'],
  ['OPR/', 'Opera'],
  ['Firefox/', 'Firefox'],
  ['Chrome/', 'Chrome'],
  ['Safari/', 'Safari'],
] as const
const SYSTEMS = [
  ['iPhone', 'iPhone'],
  ['iPad', 'iPad'],
  ['Android', 'Android'],
  ['Windows', 'Windows'],
  ['Mac OS', 'macOS'],
  ['Linux', 'Linux'],
] as const

/** Browser and operating system, from a user agent. */
function browserOf(agent: string | null | undefined): string {
  if (!agent) return 'Unknown browser'
  const browser = BROWSERS.find(([sign]) => agent.includes(sign))?.[1]
  const system = SYSTEMS.find(([sign]) => agent.includes(sign))?.[1]
  return browser === undefined
    ? agent.slice(0, 40)
    : system === undefined
      ? browser
      : `${browser} on ${system}`
}
