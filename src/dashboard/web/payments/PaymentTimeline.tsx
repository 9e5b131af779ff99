// The timeline of a payment, or of one of its refunds or disputes.
import type { Payment } from '#sdk/index.ts'
import { useEffect } from 'react'
import { useNow } from '../kit/Instant.tsx'
import { useIsPaused } from '../operations/paused.ts'
import { useClockNow } from '../sandbox/clock.ts'
import { useSession } from '../session.tsx'
import { earlierOf, TimelineFrame } from '../timeline/TimelineSection.tsx'
import { requestItem, timelineItems, type TimelineChild } from './items.tsx'
import type { PaymentTimelineQuery } from './timeline.ts'

/** `child`: shows only entries of that refund or dispute. */
export function PaymentTimeline({
  payment,
  timeline,
  child,
}: {
  payment: Payment | undefined
  timeline: PaymentTimelineQuery
  child?: TimelineChild | undefined
}) {
  const now = useNow()
  const clock_now = useClockNow()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  const { data, hasNextPage, isFetching, fetchNextPage } = timeline
  const earlier = earlierOf(timeline)
  const since = data?.entries[0]?.at
  const is_cut = hasNextPage && since !== undefined && child !== undefined && child.since < since
  // The entries of a child may be on earlier pages: read back to the beginning of the child.
  useEffect(() => {
    if (is_cut && !isFetching) void fetchNextPage()
  }, [is_cut, isFetching, fetchNextPage])
  return (
    <TimelineFrame
      query={timeline}
      items={
        payment &&
        data &&
        timelineItems(
          { payment, timeline: data, now, clock_now, is_operator, paused, is_complete: !hasNextPage },
          child,
        )
      }
      earlier={
        child === undefined && earlier && payment ? { ...earlier, start: requestItem(payment) } : undefined
      }
    />
  )
}
