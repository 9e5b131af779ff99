// Unresolved differences in all tenants: drifts, jobs with unknown effect, and parked notifications.
import { Tabs } from '@mantine/core'
import { useAddressSearch } from '../../address.ts'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { Id, shortId } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { ListView } from '../../kit/ListPage.tsx'
import { formatMoney } from '../../kit/amounts.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { Status } from '../../kit/Status.tsx'
import { resourceLabel } from '../../resources.ts'
import { useJobsList } from '../../operations/jobs-list.ts'
import type { DriftRow, JobRow, ParkedRow } from '../../operations/shapes.ts'

const TABS = [
  { value: 'drifts', title: 'Drifts' },
  { value: 'unknown', title: 'Unknown jobs' },
  { value: 'parked', title: 'Parked notifications' },
]

const DRIFT_COLUMNS: TableColumn<DriftRow>[] = [
  {
    title: 'Subject',
    cell: ({ subject, subject_id }) => (
      <>
        <strong>{resourceLabel(subject)}</strong> <span className="dim mono">{shortId(subject_id)}</span>
      </>
    ),
  },
  { title: 'State', cell: ({ state }) => <Status status={state} resource="drift" /> },
  { title: 'Tenant', cell: ({ tenant }) => tenant, clip: true },
  { title: 'Ours', cell: ({ ours }) => (ours === null ? '–' : formatSide(ours)), clip: true },
  { title: 'Theirs', cell: ({ theirs }) => (theirs === null ? 'Unknown' : formatSide(theirs)), clip: true },
  {
    title: 'Detail',
    cell: ({ detail }) => <span title={detail ?? undefined}>{detail ?? '–'}</span>,
    clip: true,
  },
  { title: 'Since', cell: ({ since }) => <Instant at={since} /> },
  { title: 'Last checked', cell: ({ checked_at }) => <Instant at={checked_at} none="not yet" /> },
]

const DRIFTS = defineList({
  path: '/ops/drifts',
  label: 'Drifts',
  filters: [
    { kind: 'choice', name: 'state', label: 'State' },
    { kind: 'choice', name: 'subject', label: 'Subject', linked: true },
    { kind: 'text', name: 'tenant_id', label: 'Tenant id' },
  ],
  columns: DRIFT_COLUMNS,
  key: 'id',
  to: ({ state, subject_id, tenant }) =>
    state === 'orphan'
      ? '/ops/drifts?tab=parked&reason=orphan'
      : `/ops/jobs?state=all&resource_id=${subject_id}&tenant=${tenant}`,
  cursor: ({ id }) => id,
  interval_ms: 10_000,
  empty: { title: 'No drifts', text: 'The books and the providers agree.' },
})

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

const UNKNOWN_JOBS = defineList({
  path: '/ops/jobs',
  label: 'Unknown jobs',
  columns: UNKNOWN_COLUMNS,
  key: 'id',
  to: ({ id }) => `/ops/jobs/${id}`,
  empty: { title: 'No unknown jobs', text: 'The effect of every provider call is known.' },
})
const UNKNOWN = { state: 'unknown' }

function UnknownJobs() {
  return <ListView of={UNKNOWN_JOBS} list={useJobsList(UNKNOWN_JOBS, UNKNOWN)} />
}

const PARKED_COLUMNS: TableColumn<ParkedRow>[] = [
  { title: 'Event', cell: ({ kind }) => <span className="mono">{kind}</span> },
  { title: 'Provider', cell: ({ provider }) => provider },
  { title: 'Tenant', cell: ({ tenant }) => tenant ?? 'Unknown', clip: true },
  { title: 'Reason', cell: ({ reason }) => reason ?? '–', clip: true },
  { title: 'Waits for', cell: ({ waits_for }) => waits_for ?? '–', clip: true },
  {
    title: 'Object',
    cell: ({ object_id }) => (object_id === null ? '–' : <Id id={object_id} label="object id" />),
  },
  { title: 'Received', cell: ({ received_at }) => <Instant at={received_at} /> },
  { title: 'Parked', cell: ({ parked_at }) => <Instant at={parked_at} /> },
]

const PARKED = defineList({
  path: '/ops/parked',
  label: 'Parked notifications',
  filters: [{ kind: 'text', name: 'reason', label: 'Reason' }],
  columns: PARKED_COLUMNS,
  key: 'id',
  to: ({ id }) => `/ops/jobs/${id}`,
  cursor: ({ id }) => id,
  interval_ms: 10_000,
  empty: { title: 'No parked notifications', text: 'Every notification from a provider was applied.' },
})

export function DriftsPage() {
  const [{ tab }, change] = useAddressSearch()
  const shown = TABS.some(({ value }) => value === tab) ? tab : 'drifts'
  return (
    <>
      <PageHeader
        title="Drifts"
        description="Differences between the books and the providers, and effects that are still unknown. Each is checked until it is resolved."
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
          <ListView of={DRIFTS} />
        </Tabs.Panel>
        <Tabs.Panel value="unknown">
          <UnknownJobs />
        </Tabs.Panel>
        <Tabs.Panel value="parked">
          <ListView of={PARKED} />
        </Tabs.Panel>
      </Tabs>
    </>
  )
}

/** The status and the amounts of one side of a drift. */
function formatSide(side: NonNullable<DriftRow['ours']>): string {
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
