// What is in doubt, over all tenants: drifts, jobs whose effect is unknown, and parked notifications.
import { Tabs } from '@mantine/core'
import { useAddressSearch } from '../../address.ts'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Filters, type FilterField } from '../../kit/Filters.tsx'
import { Id, shortId } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { useList } from '../../kit/list.ts'
import { formatMoney } from '../../kit/amounts.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status } from '../../kit/Status.tsx'
import { nounWords } from '../../nouns.ts'
import { useJobsList } from '../../operations/jobs-list.ts'
import type { DriftRow, JobRow, ParkedRow } from '../../operations/shapes.ts'

const TABS = [
  { value: 'drifts', title: 'Drifts' },
  { value: 'unknown', title: 'Unknown jobs' },
  { value: 'parked', title: 'Parked notifications' },
]

export function DriftsPage() {
  const [{ tab }, change] = useAddressSearch()
  const shown = TABS.some(({ value }) => value === tab) ? tab : 'drifts'
  return (
    <>
      <PageHeader
        title="Drifts"
        description="Where the books and the providers differ, and what is not known yet. Each is checked again until it is settled."
      />
      <Tabs
        value={shown ?? 'drifts'}
        keepMounted={false}
        onChange={(value) =>
          change({
            tab: value ?? undefined,
            before: undefined,
            after: undefined,
            state: undefined,
            subject: undefined,
            reason: undefined,
          })
        }
      >
        <Tabs.List mb="md">
          {TABS.map(({ value, title }) => (
            <Tabs.Tab key={value} value={value}>
              {title}
            </Tabs.Tab>
          ))}
        </Tabs.List>
        <Tabs.Panel value="drifts">
          <Drifts />
        </Tabs.Panel>
        <Tabs.Panel value="unknown">
          <UnknownJobs />
        </Tabs.Panel>
        <Tabs.Panel value="parked">
          <Parked />
        </Tabs.Panel>
      </Tabs>
    </>
  )
}

const DRIFT_FIELDS: FilterField[] = [
  { kind: 'select', name: 'state', label: 'State', options: ['unknown', 'stale', 'differs'] },
  { kind: 'text', name: 'tenant_id', label: 'Tenant id' },
]
const DRIFT_COLUMNS: TableColumn<DriftRow>[] = [
  {
    title: 'What',
    cell: ({ subject, subject_id }) => (
      <>
        <strong>{nounWords(subject)}</strong> <span className="dim mono">{shortId(subject_id)}</span>
      </>
    ),
  },
  { title: 'State', cell: ({ state }) => <Status status={state} noun="drift" /> },
  { title: 'Tenant', cell: ({ tenant }) => tenant, clip: true },
  { title: 'Ours', cell: ({ ours }) => sideWords(ours), clip: true },
  { title: 'Theirs', cell: ({ theirs }) => (theirs === null ? 'Not known' : sideWords(theirs)), clip: true },
  {
    title: 'Detail',
    cell: ({ detail }) => <span title={detail ?? undefined}>{detail ?? '–'}</span>,
    clip: true,
  },
  { title: 'Since', cell: ({ since }) => <Instant at={since} /> },
  { title: 'Last checked', cell: ({ checked_at }) => <Instant at={checked_at} none="not yet" /> },
]

function Drifts() {
  const list = useList<DriftRow>('/ops/drifts', ['state', 'subject', 'tenant_id'], {
    cursor: ({ id }) => id,
    every_ms: 10_000,
  })
  return (
    <>
      <Filters fields={DRIFT_FIELDS} />
      <DataTable
        label="Drifts"
        list={list}
        columns={DRIFT_COLUMNS}
        rowKey={({ id }) => id}
        to={({ subject_id, tenant }) => `/ops/jobs?state=all&subject_id=${subject_id}&tenant=${tenant}`}
        empty={<EmptyState title="No drifts">The books and the providers agree.</EmptyState>}
      />
    </>
  )
}

const UNKNOWN_COLUMNS: TableColumn<JobRow>[] = [
  {
    title: 'Job',
    cell: ({ id, name }) => (
      <>
        <strong>{name}</strong> <span className="dim mono">{shortId(id)}</span>
      </>
    ),
  },
  { title: 'Tenant', cell: ({ tenant, tenant_id }) => tenant ?? shortId(tenant_id), clip: true },
  { title: 'Unknown since', cell: ({ unknown_since }) => <Instant at={unknown_since} /> },
  { title: 'First sent', cell: ({ first_sent_at }) => <Instant at={first_sent_at} /> },
  { title: 'Next check', cell: ({ run_at }) => <Instant at={run_at} /> },
  { title: 'Error', cell: ({ error }) => <span title={error ?? undefined}>{error ?? '–'}</span>, clip: true },
]

function UnknownJobs() {
  return (
    <DataTable
      label="Unknown jobs"
      list={useJobsList(UNKNOWN)}
      columns={UNKNOWN_COLUMNS}
      rowKey={({ id }) => id}
      to={({ id }) => `/ops/jobs/${id}`}
      empty={<EmptyState title="No unknown jobs">The effect of each call is known.</EmptyState>}
    />
  )
}

const UNKNOWN = { state: 'unknown' }

const PARKED_FIELDS: FilterField[] = [{ kind: 'text', name: 'reason', label: 'Reason' }]
const PARKED_COLUMNS: TableColumn<ParkedRow>[] = [
  { title: 'Event', cell: ({ kind }) => <span className="mono">{kind}</span> },
  { title: 'Provider', cell: ({ provider }) => provider },
  { title: 'Tenant', cell: ({ tenant }) => tenant ?? 'Not known', clip: true },
  { title: 'Reason', cell: ({ reason }) => reason ?? '–', clip: true },
  { title: 'Waits for', cell: ({ waits_for }) => waits_for ?? '–', clip: true },
  {
    title: 'Object',
    cell: ({ object_id }) => (object_id === null ? '–' : <Id id={object_id} label="object id" />),
  },
  { title: 'Received', cell: ({ received_at }) => <Instant at={received_at} /> },
  { title: 'Parked', cell: ({ parked_at }) => <Instant at={parked_at} /> },
]

function Parked() {
  const list = useList<ParkedRow>('/ops/parked', ['reason'], { cursor: ({ id }) => id, every_ms: 10_000 })
  return (
    <>
      <Filters fields={PARKED_FIELDS} />
      <DataTable
        label="Parked notifications"
        list={list}
        columns={PARKED_COLUMNS}
        rowKey={({ id }) => id}
        to={({ id }) => `/ops/jobs/${id}`}
        empty={
          <EmptyState title="No parked notifications">
            Every notification from a provider was applied.
          </EmptyState>
        }
      />
    </>
  )
}

/** One side in words: its money and its status. */
function sideWords(side: DriftRow['ours']): string {
  const { status, currency, ...others } = side
  const amounts = Object.entries(others).flatMap(([name, value]) => {
    if (typeof value !== 'number') return []
    const money = name.endsWith('_minor') && typeof currency === 'string'
    return [
      `${name.replace(/_minor$/, '').replaceAll('_', ' ')} ${money ? formatMoney(value, currency) : value}`,
    ]
  })
  return [...(typeof status === 'string' ? [status] : []), ...amounts].join(', ')
}
