// The audit of the installation: who did what, in all tenants.
import { useAddressSearch } from '../../address.ts'
import { EntryOutcome } from '../../audit/EntryOutcome.tsx'
import type { Answers } from '../../generated/answers.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Filters, type FilterField } from '../../kit/Filters.tsx'
import { Facts } from '../../kit/Facts.tsx'
import { Id } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { Json } from '../../kit/Json.tsx'
import { useList } from '../../kit/list.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { actionInWords } from '../settings/audit-words.ts'

type EntryRow = Answers['GET /ops/audit'][number]

const FIELDS: FilterField[] = [
  { kind: 'text', name: 'actor', label: 'Who', placeholder: 'Email' },
  { kind: 'text', name: 'action', label: 'Action', placeholder: 'Jobs: pause' },
  { kind: 'text', name: 'seq', label: 'Entry', placeholder: 'Number' },
]
const COLUMNS: TableColumn<EntryRow>[] = [
  { title: 'Entry', cell: ({ seq }) => <span className="figures">{seq}</span> },
  { title: 'When', cell: ({ at }) => <Instant at={at} /> },
  { title: 'Who', cell: ({ actor }) => actor, clip: true },
  { title: 'Action', cell: ({ action }) => actionInWords(action) },
  { title: 'Tenant', cell: ({ tenant }) => tenant ?? '–', clip: true },
  {
    title: 'Subject',
    cell: ({ subject, subject_id }) =>
      subject === null ? (
        '–'
      ) : (
        <span className="line nowrap">
          {subject} {subject_id !== null && <Id id={subject_id} short />}
        </span>
      ),
  },
  { title: 'Reason', cell: ({ details }) => reasonOf(details), clip: true },
  { title: 'Address', cell: ({ address }) => <span className="mono">{address ?? '–'}</span> },
]

export function OperatorAuditPage() {
  const [{ seq }] = useAddressSearch()
  const list = useList<EntryRow>('/ops/audit', ['actor', 'action', 'seq'], { every_ms: 10_000 })
  const entry = seq === undefined ? undefined : list.rows?.find((row) => String(row.seq) === seq)
  return (
    <>
      <PageHeader
        title="Audit"
        description="What people did and what operators read, in all tenants. Entries are only ever added, each with the hash of the one before."
      />
      <Filters fields={FIELDS} />
      <DataTable
        label="Audit"
        list={list}
        columns={COLUMNS}
        rowKey={(row) => String(row.seq)}
        to={(row) => `/ops/audit?seq=${row.seq}`}
        empty={<EmptyState title="No entries yet" />}
      />
      {entry && (
        <section className="section">
          <h2>Entry {entry.seq}</h2>
          <Facts
            facts={{
              When: <Instant at={entry.at} />,
              Who: entry.actor,
              Outcome: <EntryOutcome of={entry} />,
              Action: (
                <>
                  {actionInWords(entry.action)} <span className="dim mono">{entry.action}</span>
                </>
              ),
              Request: entry.request_id === null ? null : <Id id={entry.request_id} label="request id" />,
            }}
          />
          <h2 className="side-title">Details</h2>
          <Json value={entry.details} label="details" />
          {entry.outcome !== null && (
            <>
              <h2 className="side-title">Outcome</h2>
              <Json value={entry.outcome} label="outcome" />
            </>
          )}
        </section>
      )}
    </>
  )
}

function reasonOf({ reason }: Record<string, unknown>) {
  return typeof reason === 'string' ? <span title={reason}>{reason}</span> : '–'
}
