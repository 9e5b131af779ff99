// The audit log of the installation, over all tenants.
import { useAddressSearch } from '../../address.ts'
import { EntryOutcome } from '../../audit/EntryOutcome.tsx'
import type { Answers } from '../../generated/answers.ts'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { Facts } from '../../kit/Facts.tsx'
import { Id } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { Json } from '../../kit/Json.tsx'
import { useList } from '../../kit/list.ts'
import { ListPage } from '../../kit/ListPage.tsx'
import { formatAuditAction } from '../settings/audit-texts.ts'

type EntryRow = Answers['GET /ops/audit'][number]

const COLUMNS: TableColumn<EntryRow>[] = [
  { title: 'Entry', cell: ({ seq }) => <span className="figures">{seq}</span> },
  { title: 'When', cell: ({ at }) => <Instant at={at} /> },
  { title: 'Who', cell: ({ actor }) => actor, clip: true },
  { title: 'Action', cell: ({ action }) => formatAuditAction(action) },
  { title: 'Tenant', cell: ({ tenant }) => tenant ?? '–', clip: true },
  {
    title: 'Subject',
    cell: ({ subject, subject_id }) =>
      subject === null ? (
        '–'
      ) : (
        <span className="inline nowrap">
          {subject} {subject_id !== null && <Id id={subject_id} short />}
        </span>
      ),
  },
  { title: 'Reason', cell: ({ details }) => reasonOf(details), clip: true },
  { title: 'Address', cell: ({ address }) => <span className="mono">{address ?? '–'}</span> },
]

const ENTRIES = defineList({
  path: '/ops/audit',
  label: 'Audit',
  filters: [
    { kind: 'text', name: 'actor', label: 'Who', placeholder: 'Email' },
    { kind: 'text', name: 'action', label: 'Action', placeholder: 'Jobs: pause' },
    { kind: 'text', name: 'seq', label: 'Entry', placeholder: 'Number' },
  ],
  columns: COLUMNS,
  key: 'seq',
  to: ({ seq }) => `/ops/audit?seq=${seq}`,
  interval_ms: 10_000,
  empty: { title: 'No entries yet' },
})

export function OperatorAuditPage() {
  const [{ seq }] = useAddressSearch()
  const list = useList(ENTRIES)
  const entry = seq === undefined ? undefined : list.rows?.find((row) => String(row.seq) === seq)
  return (
    <ListPage
      of={ENTRIES}
      list={list}
      title="Audit"
      description="Acts of users and reads of operators, in all tenants. Entries are append-only; each contains the hash of the previous entry."
    >
      {entry && <Entry of={entry} />}
    </ListPage>
  )
}

function Entry({ of }: { of: EntryRow }) {
  const { seq, at, actor, action, details, request_id, outcome } = of
  return (
    <section className="section">
      <h2>Entry {seq}</h2>
      <Facts
        facts={{
          When: <Instant at={at} />,
          Who: actor,
          Outcome: <EntryOutcome of={of} />,
          Action: (
            <>
              {formatAuditAction(action)} <span className="dim mono">{action}</span>
            </>
          ),
          Request: request_id === null ? null : <Id id={request_id} label="request id" />,
        }}
      />
      <h2 className="side-title">Details</h2>
      <Json value={details} label="details" />
      {outcome !== null && (
        <>
          <h2 className="side-title">Outcome</h2>
          <Json value={outcome} label="outcome" />
        </>
      )}
    </section>
  )
}

function reasonOf({ reason }: Record<string, unknown>) {
  return typeof reason === 'string' ? <span title={reason}>{reason}</span> : '–'
}
