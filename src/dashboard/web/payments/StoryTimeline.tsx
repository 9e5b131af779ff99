// The timeline of a payment, or of one refund or dispute of it.
import type { Payment } from '#sdk/index.ts'
import type { UseQueryResult } from '@tanstack/react-query'
import { Bone } from '../kit/Bone.tsx'
import { AsOf, useNow } from '../kit/Instant.tsx'
import { Failed } from '../kit/states.tsx'
import { Timeline } from '../kit/Timeline.tsx'
import { useIsPaused } from '../operations/held.ts'
import { useSession } from '../session.tsx'
import { storyItems } from './items.tsx'
import type { PaymentStory } from './story.ts'

/** `part`: only what is of that refund or dispute. */
export function StoryTimeline({
  payment,
  story: { data, error, refetch, dataUpdatedAt },
  part,
}: {
  payment: Payment | undefined
  story: UseQueryResult<PaymentStory>
  part?: { id: string; reference: string | null }
}) {
  const now = useNow()
  const { is_operator } = useSession()
  const paused = useIsPaused('payments')
  return (
    <section className="section">
      <div className="line">
        <h2>Timeline</h2>
        {dataUpdatedAt > 0 && (
          <span className="page-as-of">
            <AsOf at={dataUpdatedAt} />
          </span>
        )}
      </div>
      {error !== null && data === undefined && <Failed error={error} retry={refetch} />}
      {data?.is_part && <p className="dim">Only the latest entries. There were more before them.</p>}
      {payment !== undefined && data !== undefined ? (
        <Timeline items={storyItems({ payment, story: data, now, is_operator, paused }, part)} />
      ) : (
        error === null && (
          <div className="stack" aria-busy="true">
            {['72%', '64%', '80%', '58%'].map((width) => (
              <Bone key={width} width={width} height={20} />
            ))}
          </div>
        )
      )}
    </section>
  )
}
