// When the data was read, and the error of a failed refresh.
import { Button } from '@mantine/core'
import type { UseQueryResult } from '@tanstack/react-query'
import { SluiceError } from '#sdk/index.ts'
import { errorMessage } from '../api.ts'
import { Id } from './Id.tsx'
import { AsOf } from './Instant.tsx'

export type ReadState = Pick<UseQueryResult, 'error' | 'refetch' | 'dataUpdatedAt'>

/**
 * Empty until the first read. `as_of`: the time that the server reports, in ms. `brief`: without the error, which the
 * page header shows.
 */
export function Freshness({
  of: { error, refetch, dataUpdatedAt },
  as_of = dataUpdatedAt,
  brief = false,
}: {
  of: ReadState
  as_of?: number | undefined
  brief?: boolean
}) {
  if (dataUpdatedAt === 0) return null
  if (error === null)
    return (
      <div className="page-as-of">
        <AsOf at={as_of} />
      </div>
    )
  const since = `Not updated since ${new Date(as_of).toLocaleTimeString()}`
  if (brief) return <div className="page-as-of">{since}</div>
  const request_id = error instanceof SluiceError ? error.request_id : null
  return (
    <div className="stale" role="alert">
      <span>
        {since}: {errorMessage(error)}
      </span>
      {request_id !== null && (
        <span>
          Request <Id id={request_id} label="request id" />
        </span>
      )}
      <Button size="compact-xs" onClick={() => void refetch()}>
        Try again
      </Button>
    </div>
  )
}
