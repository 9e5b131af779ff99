// What the last comparison of the providers' lists with our rows has found.
import { DataTable, type TableColumn } from '../../kit/DataTable.tsx'
import { Instant } from '../../kit/Instant.tsx'
import { singlePageList } from '../../kit/list.ts'
import { EmptyState } from '../../kit/states.tsx'
import { humanize } from '../../kit/statuses.ts'
import { toneClass } from '../../kit/Status.tsx'
import { useAnswer } from '../../queries.ts'
import type { ScheduleRow } from '../shapes.ts'

type ListRow = { list: string } & Record<'agrees' | 'differs' | 'missing' | 'foreign', number>

const count = (title: string, of: (row: ListRow) => number, tone?: 'bad' | 'warn'): TableColumn<ListRow> => ({
  title,
  align: 'end',
  cell: (row) => (
    <span className={of(row) === 0 ? 'dim' : tone && toneClass(tone)}>{of(row).toLocaleString()}</span>
  ),
})

const COLUMNS: TableColumn<ListRow>[] = [
  { title: 'List', cell: ({ list }) => humanize(list) },
  count('Agree', ({ agrees }) => agrees),
  count('Other state here', ({ differs }) => differs, 'warn'),
  count('No row here', ({ missing }) => missing, 'bad'),
  count('Not ours', ({ foreign }) => foreign),
]

export function ProviderLists() {
  const query = useAnswer<ScheduleRow[]>('/ops/schedules', undefined, { interval_ms: 10_000 })
  const run = query.data?.find(({ name }) => name.startsWith('objects of '))
  return (
    <section className="section">
      <h2>Comparison with the providers</h2>
      <p className="dim recovery-note">
        Once a day and after each switch, a worker compares the lists of the providers with our rows, and
        recovers what is missing.
        {run !== undefined && (
          <>
            {' '}
            Last compared: <Instant at={run.ended_at} none="not yet" />
            {run.failure === null ? '.' : `. It fails: ${run.failure}`}
          </>
        )}
      </p>
      <DataTable
        label="Lists of providers"
        list={singlePageList(query, query.data && listsOf(run))}
        columns={COLUMNS}
        rowKey={({ list }) => list}
        paged={false}
        empty={<EmptyState title="Not compared yet" />}
      />
    </section>
  )
}

function listsOf(run: ScheduleRow | undefined): ListRow[] {
  const { lists = {} } = Object(run?.result) as { lists?: Record<string, Omit<ListRow, 'list'>> }
  return Object.entries(lists).map(([list, counts]) => ({ list, ...counts }))
}
