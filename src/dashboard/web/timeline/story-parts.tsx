// What timelines of rows show beside the entries of the API: deliveries, and the time until something happens.
import { Link } from '@tanstack/react-router'
import type { Answers } from '../generated/answers.ts'
import { formatDuration } from '../kit/Instant.tsx'
import { KIND_ICONS } from './items.tsx'
import type { TimelineItem } from './Timeline.tsx'

export type StoryDelivery = Answers['GET /stories/{id}']['deliveries'][number]

/** ` in 2 s`, or ` now` when it is due. */
export function inTime(at: string, now: number): string {
  const ms = Date.parse(at) - now
  if (ms <= 1000) return ' now'
  return ms < 10_000 ? ` in ${Math.round(ms / 1000)} s` : ` in ${formatDuration(ms)}`
}

/** Delivered events are folded. */
export function deliveryItem(delivery: StoryDelivery): TimelineItem {
  const { id, status, type, url, next_attempt_at, last_status_code, last_error } = delivery
  const delivered = status === 'delivered'
  const why = last_error ?? (last_status_code === null ? null : `HTTP ${last_status_code}`)
  return {
    id: `delivery-${id}`,
    at: delivery.created_at,
    ended_at: delivery.delivered_at,
    icon: KIND_ICONS.delivery,
    name: `${delivered ? 'Delivered' : 'Delivery of'} ${type}`,
    note: `to ${URL.canParse(url) ? new URL(url).host : url}`,
    outcome: status === 'pending' && delivery.attempts > 0 ? 'retrying' : status,
    changed: delivered
      ? undefined
      : `${why ?? 'Not sent yet'}${next_attempt_at === null ? '' : `; next attempt${inTime(next_attempt_at, Date.now())}`}`,
    matters: status !== 'delivered' && status !== 'skipped',
    more: (
      <Link to="/webhooks/deliveries/$id" params={{ id }}>
        Delivery
      </Link>
    ),
    details: delivery,
  }
}
