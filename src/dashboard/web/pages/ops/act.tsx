// An operator act on jobs: its progress, and the result for each job.
import { Button, SegmentedControl } from '@mantine/core'
import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useAddressSearch, usePathParam } from '../../address.ts'
import { read } from '../../api.ts'
import { sendAct, AuditLink } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Facts } from '../../kit/Facts.tsx'
import { ErrorPage } from '../../kit/ErrorPage.tsx'
import { shortId } from '../../kit/Id.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { EmptyState } from '../../kit/states.tsx'
import { Status } from '../../kit/Status.tsx'
import { filtersText, JOB_ACTS } from '../../operations/job-acts.ts'
import { JobActProgress, useJobAct } from '../../operations/JobActProgress.tsx'
import type { JobActItemRow } from '../../operations/shapes.ts'
import { invalidate } from '../../queries.ts'

const LIMIT = 50
const COLUMNS: TableColumn<JobActItemRow>[] = [
  { title: 'Job', cell: ({ job_id }) => <span className="mono">{shortId(job_id)}</span> },
  {
    title: 'Result',
    cell: ({ at, after, refused, lookup_only }) =>
      at === null ? (
        <Status status="pending" label="Waiting" />
      ) : refused === null ? (
        <Status status="done" label={lookup_only ? `Being looked up: ${after}` : `Done: ${after}`} />
      ) : (
        <Status status="refused" />
      ),
  },
  { title: 'Before', cell: ({ before }) => before ?? '–' },
  {
    title: 'Refusal reason',
    cell: ({ refused }) => <span title={refused ?? undefined}>{refused ?? '–'}</span>,
    clip: true,
  },
  { title: 'When', cell: ({ at }) => <Instant at={at} /> },
]

export function ActPage() {
  const id = usePathParam('id')
  const query = useJobAct(id)
  const { data: act, error, refetch } = query
  const [canceling, setCanceling] = useState(false)
  const parent = { to: '/ops/jobs', title: 'Jobs' }
  if (error !== null && act === undefined)
    return <ErrorPage title="Act" parent={parent} error={error} retry={refetch} />
  const title =
    act === undefined ? 'Act' : `${JOB_ACTS[act.act].title} ${act.job_id === null ? 'jobs' : 'one job'}`
  return (
    <>
      <PageHeader
        title={title}
        parent={parent}
        read={query}
        description={act?.reason}
        actions={
          act?.finished_at === null &&
          act.canceled_by === null && <Button onClick={() => setCanceling(true)}>Cancel act</Button>
        }
      />
      <JobActProgress id={id} />
      <Facts
        facts={{
          'Requested by': act && act.actor,
          Jobs:
            act &&
            (act.filter === null ? (
              <Link to={`/ops/jobs/${act.job_id}`}>One job</Link>
            ) : (
              filtersText(act.filter)
            )),
          'Matched at request': act && act.matched.toLocaleString(),
          Found:
            act &&
            `${act.found.toLocaleString()}${act.more ? ' (more jobs match: repeat the act for them)' : ''}`,
          Requested: act && <Instant at={act.created_at} />,
          Started: act && <Instant at={act.started_at} />,
          Ended: act && <Instant at={act.finished_at} />,
          'Canceled by': act?.canceled_by ?? null,
        }}
      />
      <section className="section">
        <h2>Result of each job</h2>
        <Items id={id} interval_ms={act?.finished_at === null ? 2_000 : false} />
      </section>
      <ConfirmDialog
        opened={canceling}
        onClose={() => setCanceling(false)}
        title="Cancel this act?"
        action="Cancel act"
        effect="The act stops before its next jobs. Its effect on earlier jobs remains."
        act={() => sendAct('POST', `/ops/acts/${id}/cancel`, {})}
        outcome={({ audit_seq }) => (
          <>
            The act is stopping. <AuditLink of="installation" seq={audit_seq} />
          </>
        )}
        onDone={() => invalidate('/ops/acts')}
      />
    </>
  )
}

function Items({ id, interval_ms }: { id: string; interval_ms: number | false }) {
  const [{ outcome }, change] = useAddressSearch()
  const query = useInfiniteQuery({
    queryKey: [`/ops/acts/${id}/items`, outcome ?? ''],
    queryFn: ({ pageParam, signal }) =>
      read<JobActItemRow[]>(`/ops/acts/${id}/items`, { outcome, after: pageParam, limit: LIMIT }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => (page.length < LIMIT ? undefined : page.at(-1)?.job_id),
    refetchInterval: interval_ms,
  })
  return (
    <>
      <SegmentedControl
        aria-label="Result"
        size="xs"
        mb="xs"
        data={[
          { value: '', label: 'All' },
          { value: 'done', label: 'Done' },
          { value: 'refused', label: 'Refused' },
          { value: 'waiting', label: 'Waiting' },
        ]}
        value={outcome ?? ''}
        onChange={(value) => change({ outcome: value })}
      />
      <DataTable
        label="Jobs of this act"
        list={{ ...singlePageList(query, query.data?.pages.flat()), is_filtered: outcome !== undefined }}
        columns={COLUMNS}
        rowKey={({ job_id }) => job_id}
        to={({ job_id }) => `/ops/jobs/${job_id}`}
        paged={false}
        empty={<EmptyState title="No jobs yet" />}
      />
      {query.hasNextPage && (
        <Button loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
          Show more
        </Button>
      )}
    </>
  )
}
