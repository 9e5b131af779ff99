// The banner about switches of the database, until an operator acknowledges them.
import { Link } from '@tanstack/react-router'
import { DatabaseZap, Lock } from 'lucide-react'
import { formatInstant, Instant } from '../../kit/Instant.tsx'
import { useAnswer } from '../../queries.ts'
import type { RecoveryAnswer } from '../shapes.ts'
import { mayHaveLost, recordingText, SWITCH_KINDS, waitingText } from './texts.ts'

/** What is known about switches of the database. */
export function useRecovery() {
  return useAnswer<RecoveryAnswer>('/ops/recovery', undefined, { interval_ms: 5_000 })
}

export function SwitchBanner() {
  const { data } = useRecovery()
  if (data === undefined) return null
  const [latest, ...earlier] = data.unacknowledged
  return (
    <>
      {data.is_sealed && (
        <div className="banner" data-tone="warn" role="alert">
          <Lock size={16} aria-hidden />
          <span>
            The database is sealed before its move: requests are refused, and no job starts.{' '}
            <Link to="/ops/recovery">Go to recovery</Link>
          </span>
        </div>
      )}
      {data.recording !== null && (
        <div className="banner" data-tone="bad" role="alert">
          <DatabaseZap size={16} aria-hidden />
          <span>
            {recordingText(data.recording)} {waitingText(data)} <Link to="/ops/recovery">Go to recovery</Link>
          </span>
        </div>
      )}
      {latest !== undefined && (
        <div className="banner" data-tone={latest.kind === 'restore' ? 'bad' : 'warn'} role="alert">
          <DatabaseZap size={16} aria-hidden />
          <span>
            {SWITCH_KINDS[latest.kind]} of the database, <Instant at={latest.switched_at} />:{' '}
            {mayHaveLost(latest)
              ? `changes after ${formatInstant(latest.newest_at)} may be lost.`
              : 'nothing was lost.'}{' '}
            {waitingText(data)} {earlier.length > 0 && `${earlier.length} earlier, not acknowledged. `}
            <Link to="/ops/recovery">Go to recovery</Link>
          </span>
        </div>
      )}
    </>
  )
}
