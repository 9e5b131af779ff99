// The timeline of a payment, or of one refund or dispute of it.
import type { Payment } from '#sdk/index.ts'
import { useEffect } from 'react'
import { useNow } from '../kit/Instant.tsx'
import { useIsPaused } from '../operations/held.ts'
import { useSession } from '../session.tsx'
import { earlierOf, TimelineFrame } from '../timeline/TimelineSection.tsx'
import { requestItem, storyItems, type StoryPart } from './items.tsx'
import type { StoryQuery } from './story.ts'

/** `part`: only what is of that refund or dispute. */
export function StoryTimeline({
  payment,
  story,
  part,
}: {
  payment: Payment | undefined
  story: StoryQuery
  part?: StoryPart | undefined
}) {
  const now = useNow()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  const { data, hasNextPage, isFetching, fetchNextPage } = story
  const earlier = earlierOf(story)
  const since = data?.entries[0]?.at
  const is_cut = hasNextPage && since !== undefined && part !== undefined && part.since < since
  // What is of a part may be long past: then it is read as far back as its beginning.
  useEffect(() => {
    if (is_cut && !isFetching) void fetchNextPage()
  }, [is_cut, isFetching, fetchNextPage])
  return (
    <TimelineFrame
      query={story}
      items={
        payment &&
        data &&
        storyItems({ payment, story: data, now, is_operator, paused, is_whole: !hasNextPage }, part)
      }
      earlier={
        part === undefined && earlier && payment ? { ...earlier, start: requestItem(payment) } : undefined
      }
    />
  )
}
