// The switches of the database, each with what it may have lost and what operators decided.
import { Button } from '@mantine/core'
import { useState } from 'react'
import { AuditLink, sendAct } from '../../kit/ActResult.tsx'
import { ConfirmDialog } from '../../kit/ConfirmDialog.tsx'
import { counted } from '../../kit/counts.ts'
import type { TableColumn } from '../../kit/DataTable.tsx'
import { defineList } from '../../kit/define-list.ts'
import { formatDuration, formatInstant, Instant } from '../../kit/Instant.tsx'
import { ListView } from '../../kit/ListPage.tsx'
import { Status, toneClass } from '../../kit/Status.tsx'
import { invalidate } from '../../queries.ts'
import type { SwitchRow } from '../shapes.ts'
import { HELD_MESSAGES, mayHaveLost, SWITCH_KINDS, SWITCH_SIGNS } from './texts.ts'

const COLUMNS: TableColumn<SwitchRow>[] = [
  {
    title: 'Switch',
    cell: ({ number, kind, sign, switched_at }) => (
      <>
        <strong>
          {number}: {SWITCH_KINDS[kind]}
        </strong>
        <small className="dim comparison">
          noticed <Instant at={switched_at} />
        </small>
        <small className="dim comparison">{SWITCH_SIGNS[sign]}</small>
      </>
    ),
  },
  { title: 'Newest change before it', cell: (row) => <NewestChange row={row} /> },
  { title: 'In doubt', cell: ({ jobs_in_doubt }) => counted(jobs_in_doubt, 'job'), align: 'end' },
  {
    title: 'Lists of providers, release',
    // One column leaves room for the button.
    cell: (row) => (
      <>
        <Lists row={row} />
        <Released row={row} />
      </>
    ),
    clip: true,
  },
]

const SWITCHES = defineList({
  path: '/ops/switches',
  label: 'Switches of the database',
  columns: COLUMNS,
  key: 'number',
  cursor: ({ number }) => String(number),
  interval_ms: 5_000,
  empty: {
    title: 'No switches',
    text: 'Since its installation, the database has neither gone back in time nor moved to another server.',
  },
})

export function SwitchList() {
  const [chosen, setChosen] = useState<SwitchRow>()
  const [opened, setOpened] = useState(false)
  return (
    <>
      <ListView
        of={SWITCHES}
        row_acts={(row) =>
          row.acknowledged_at === null ? (
            <Button
              size="compact-xs"
              aria-label={`Acknowledge switch ${row.number}`}
              onClick={() => {
                setChosen(row)
                setOpened(true)
              }}
            >
              Acknowledge
            </Button>
          ) : (
            <small className="dim" title={`${row.acknowledged_by}, ${formatInstant(row.acknowledged_at)}`}>
              Acknowledged
            </small>
          )
        }
      />
      {chosen && (
        <ConfirmDialog
          key={chosen.number}
          opened={opened}
          onClose={() => setOpened(false)}
          title={`Acknowledge switch ${chosen.number}?`}
          action="Acknowledge"
          effect="Its banner disappears for all operators. What waits still waits."
          act={() => sendAct('POST', `/ops/switches/${chosen.number}/acknowledge`)}
          outcome={({ audit_seq }) => (
            <>
              Acknowledged. <AuditLink of="installation" seq={audit_seq} />
            </>
          )}
          onDone={() => invalidate('/ops/switches', '/ops/recovery')}
        />
      )}
    </>
  )
}

/** The newest change before the switch, and what a witness had seen later. */
function NewestChange({ row }: { row: SwitchRow }) {
  const { newest_at, witnessed_at, lost_audit_entries: lost } = row
  const lost_ms = witnessed_at === null ? null : Date.parse(witnessed_at) - Date.parse(newest_at)
  return (
    <span className="figures">
      {formatInstant(newest_at)}
      {mayHaveLost(row) && (
        <small className="dim comparison">
          {lost_ms === null ? 'without a witness' : `witness: ${formatDuration(Math.max(0, lost_ms))} later`}
        </small>
      )}
      {lost !== null && (
        <small className={toneClass('bad', 'comparison')}>
          {lost.first === lost.last
            ? `audit entry ${lost.first} is lost`
            : `audit entries ${lost.first} to ${lost.last} are lost`}
        </small>
      )}
    </span>
  )
}

function Lists({ row }: { row: SwitchRow }) {
  const { lists_read_at, opt_outs_read_at, is_reading_opt_outs } = row
  return (
    <>
      <ReadList row={row} read_at={lists_read_at} />
      {(is_reading_opt_outs || opt_outs_read_at !== null) && (
        <div>
          <small>Received SMS: </small>
          <ReadList row={row} read_at={opt_outs_read_at} />
        </div>
      )}
    </>
  )
}

/** When the lists had been read; until then, whether jobs wait for them. */
function ReadList({
  row: { lists_waived_at, lists_waived_by },
  read_at,
}: {
  row: SwitchRow
  read_at: string | null
}) {
  if (read_at !== null)
    return (
      <>
        Read <Instant at={read_at} />
      </>
    )
  return (
    <>
      <Status status="running" label="Being read" />
      {lists_waived_at !== null && (
        <>
          <small className="dim comparison">nothing waits for them</small>
          <small className="dim comparison" title={formatInstant(lists_waived_at)}>
            decided by {lists_waived_by}
          </small>
        </>
      )}
    </>
  )
}

function Released({ row: { released_at, released_by, messages } }: { row: SwitchRow }) {
  if (released_at === null)
    return (
      <div>
        <Status status="waiting" label="Not released" />
      </div>
    )
  return (
    <div>
      Released <Instant at={released_at} />
      {messages !== null && <small className="dim comparison">{HELD_MESSAGES[messages]}</small>}
      <small className="dim comparison" title={released_by ?? undefined}>
        {released_by === 'system' ? 'automatically' : `by ${released_by}`}
      </small>
    </div>
  )
}
