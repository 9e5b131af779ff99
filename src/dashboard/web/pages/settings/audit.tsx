// Settings, Audit: the audit log of the tenant.
import { Modal } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useAddressSearch } from '../../address.ts'
import { EntryOutcome } from '../../audit/EntryOutcome.tsx'
import type { Answers } from '../../generated/answers.ts'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { Facts } from '../../kit/Facts.tsx'
import { Id } from '../../kit/Id.tsx'
import { formatInstant, Instant } from '../../kit/Instant.tsx'
import { Json } from '../../kit/Json.tsx'
import { ListView } from '../../kit/ListPage.tsx'
import { EmptyState, ErrorState } from '../../kit/states.tsx'
import { useAnswer } from '../../queries.ts'
import { formatAuditAction } from './audit-texts.ts'

type AuditRow = Answers['GET /audit'][number]

const COLUMNS: TableColumn<AuditRow>[] = [
  {
    title: 'Action',
    cell: ({ seq, action }) => (
      <Link
        to="/settings/audit"
        search={(now: Record<string, string | undefined>) => ({ ...now, seq: String(seq) })}
        resetScroll={false}
        data-row
      >
        {formatAuditAction(action)}
      </Link>
    ),
    csv: ({ action }) => formatAuditAction(action),
  },
  { title: 'Who', cell: ({ actor }) => actor, clip: true, csv: ({ actor }) => actor },
  {
    title: 'Subject',
    cell: ({ subject_id }) =>
      subject_id === null ? <span className="dim">–</span> : <Id id={subject_id} short />,
    csv: ({ subject_id }) => subject_id,
  },
  {
    title: 'Outcome',
    cell: (row) => <EntryOutcome of={row} />,
    csv: ({ outcome }) => (outcome === null ? '' : JSON.stringify(outcome)),
  },
  {
    title: 'Request',
    cell: ({ request_id }) =>
      request_id === null ? <span className="dim">–</span> : <Id id={request_id} short label="request id" />,
    csv: ({ request_id }) => request_id,
  },
  { title: 'Entry', cell: ({ seq }) => seq, align: 'end', csv: ({ seq }) => seq },
  { title: 'When', cell: ({ at }) => <Instant at={at} />, csv: ({ at }) => at },
]

const ENTRIES = defineList({
  path: '/audit',
  label: 'Audit entries',
  filters: [
    { kind: 'text', name: 'action', label: 'Action', placeholder: 'Capture payment' },
    { kind: 'text', name: 'actor', label: 'Who', placeholder: 'ada@example.com' },
  ],
  columns: COLUMNS,
  file: 'audit.csv',
  key: 'seq',
  limit: 50,
  empty: {
    title: 'No entries yet',
    text: 'Every act of a user is recorded here. Entries cannot be changed.',
  },
})

export function AuditTab() {
  const [{ seq }, change] = useAddressSearch()
  return (
    <>
      <ListView of={ENTRIES} />
      <Modal
        opened={seq !== undefined}
        onClose={() => change({ seq: undefined })}
        title={`Audit entry ${seq ?? ''}`}
        size="lg"
        withCloseButton
      >
        {seq !== undefined && <Entry seq={seq} />}
      </Modal>
    </>
  )
}

function Entry({ seq }: { seq: string }) {
  const { data, error, refetch } = useAnswer<AuditRow[]>('/audit', { seq })
  if (error !== null && data === undefined) return <ErrorState error={error} retry={refetch} />
  const row = data?.[0]
  if (data !== undefined && row === undefined)
    return (
      <EmptyState title="No such entry">The entry does not exist or belongs to another tenant.</EmptyState>
    )
  return (
    <>
      <Facts
        facts={{
          Action: row && (
            <>
              {formatAuditAction(row.action)} <span className="dim mono">{row.action}</span>
            </>
          ),
          Who: row?.actor,
          When: row && formatInstant(row.at),
          Resource: row && row.subject_id !== null && (
            <>
              {row.subject} <Id id={row.subject_id} />
            </>
          ),
          Outcome: row && <EntryOutcome of={row} />,
          Request: row && row.request_id !== null && <Id id={row.request_id} label="request id" />,
          Address: row?.address === null ? null : row?.address,
        }}
      />
      {row && Object.keys(row.details).length > 0 && <Json value={row.details} label="details" />}
      {row?.outcome && <Json value={row.outcome} label="outcome" />}
    </>
  )
}
