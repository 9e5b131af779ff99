// Recovery: switches of the database, what waits since them, and what is to be done.
import { Button } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState, type ComponentProps } from 'react'
import { counted } from '../../kit/counts.ts'
import { formatInstant } from '../../kit/Instant.tsx'
import { PageHeader } from '../../kit/PageHeader.tsx'
import { LostRequests } from '../../operations/recovery/LostRequests.tsx'
import { Orphans } from '../../operations/recovery/Orphans.tsx'
import { ProviderLists } from '../../operations/recovery/ProviderLists.tsx'
import { RecoveredRows } from '../../operations/recovery/RecoveredRows.tsx'
import { ReleaseDialog } from '../../operations/recovery/ReleaseDialog.tsx'
import { RepeatByHand } from '../../operations/recovery/RepeatByHand.tsx'
import { useRecovery } from '../../operations/recovery/SwitchBanner.tsx'
import { SwitchList } from '../../operations/recovery/SwitchList.tsx'
import { recordingText, waitingText } from '../../operations/recovery/texts.ts'
import type { HeldRow, RecoveryAnswer } from '../../operations/shapes.ts'
import { useAnswer } from '../../queries.ts'

export function RecoveryPage() {
  const query = useRecovery()
  const { data } = query
  const is_waiting = data !== undefined && (data.hold !== null || data.holds_messages || data.holds_sms)
  const { data: held = [] } = useAnswer<HeldRow[]>('/ops/recovery/held', undefined, {
    interval_ms: 10_000,
    enabled: is_waiting,
  })
  const [releasing, setReleasing] =
    useState<Pick<ComponentProps<typeof ReleaseDialog>, 'released' | 'awaiting' | 'only_sms'>>()
  const [opened, setOpened] = useState(false)
  return (
    <>
      <PageHeader
        title="Recovery"
        description="After a restore or failover of the database: what was noticed, what waits, and what people must do again."
        read={query}
        actions={
          data !== undefined &&
          data.unreleased.length + data.awaiting_lists.length > 0 && (
            <Button
              variant="filled"
              onClick={() => {
                setReleasing({
                  released: data.unreleased,
                  awaiting: data.awaiting_lists,
                  only_sms: data.unreleased.length === 0 && data.hold === null,
                })
                setOpened(true)
              }}
            >
              Release
            </Button>
          )
        }
      />
      {data && <Summary state={data} held={is_waiting ? held : []} />}
      <section className="section">
        <h2>Switches of the database</h2>
        <SwitchList />
      </section>
      {data !== undefined && data.lost_since !== null && data.lost_until !== null && (
        <>
          <Orphans />
          <RecoveredRows />
          <LostRequests />
          <RepeatByHand since={data.lost_since} until={data.lost_until} />
        </>
      )}
      <ProviderLists />
      {data && <Protections off={data.protections_off} />}
      {data && releasing && (
        <ReleaseDialog
          key={JSON.stringify(releasing)}
          {...releasing}
          state={data}
          held={held}
          opened={opened}
          onClose={() => setOpened(false)}
        />
      )}
    </>
  )
}

/** What waits now, and whether the server is in use. */
function Summary({ state, held }: { state: RecoveryAnswer; held: HeldRow[] }) {
  const { server, is_on_lineage, is_sealed, recording, failing_lists, unanswered_lookups } = state
  return (
    <div className="job-summary">
      {is_sealed && (
        <p>
          The database is sealed: requests are refused, and no job starts. <code>npm run recover</code> says
          whether it may be moved now, and how the seal ends.
        </p>
      )}
      {recording !== null && (
        <p>
          {recordingText(recording)}{' '}
          {recording.sign === 'operator' ? (
            <>
              If the command that records it was stopped, run it again:{' '}
              <code>npm run recover -- switched --to {recording.newest_at} --reason "..."</code>
            </>
          ) : (
            'The processes record it: start one.'
          )}
        </p>
      )}
      {!is_on_lineage && (
        <p>The server that runs now is another one than that on record, or no process has checked it yet.</p>
      )}
      <p>
        <strong>{waitingText(state)}</strong>{' '}
        {held.map(({ queue, jobs }, nth) => (
          <span key={queue}>
            {nth > 0 && ', '}
            <Link to="/ops/jobs" search={{ queue }}>
              {counted(jobs, 'job')} in {queue}
            </Link>
          </span>
        ))}
      </p>
      {failing_lists.length > 0 && (
        <ul className="repeat-list" aria-label="Lists that cannot be read">
          {failing_lists.map(({ provider, list, failing_since, error }) => (
            <li key={`${provider} ${list}`}>
              <strong>
                The list {list} of {provider} cannot be read since {formatInstant(failing_since)}
              </strong>
              <span className="dim">{error}</span>
            </li>
          ))}
        </ul>
      )}
      {unanswered_lookups !== null && (
        <p>
          {counted(unanswered_lookups.count, 'lookup')} without an answer of the provider, the oldest since{' '}
          {formatInstant(unanswered_lookups.oldest_at)}: until then, the lists do not count as read.{' '}
          <Link to="/ops/jobs" search={{ queue: 'notifications', state: 'retrying' }}>
            See the jobs
          </Link>
        </p>
      )}
      <p className="dim">
        The server in use: system {server.system_identifier}, timeline {server.timeline}.
      </p>
    </div>
  )
}

function Protections({ off }: { off: string[] }) {
  return (
    <section className="section">
      <h2>Protections that are off</h2>
      {off.length === 0 ? (
        <p className="dim">
          None for the dashboard: it can use its witnesses, and a failover loses nothing. The alert
          WitnessUnusable covers the other processes.
        </p>
      ) : (
        <ul className="repeat-list" aria-label="Protections that are off">
          {off.map((text) => (
            <li key={text}>{text.charAt(0).toUpperCase() + text.slice(1)}.</li>
          ))}
        </ul>
      )}
    </section>
  )
}
