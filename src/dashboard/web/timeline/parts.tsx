// Entries and texts that several timelines share.
import { Link } from '@tanstack/react-router'
import type { TimelineEntry } from '#sdk/index.ts'
import type { Answers } from '../generated/answers.ts'
import { formatMoney } from '../kit/amounts.ts'
import { formatDuration } from '../kit/Instant.tsx'
import { humanize } from '../kit/statuses.ts'
import { postingText, processorName } from '../payments/texts.ts'
import { entryItem, KIND_ICONS } from './items.tsx'
import type { TimelineItem } from './Timeline.tsx'

export type TimelineDelivery = Answers['GET /timelines/{id}']['deliveries'][number]

/** The time until `at` as text: ` in 2 s`, or ` now` if it has passed. */
export function dueText(at: string, now: number): string {
  const ms = Date.parse(at) - now
  if (ms <= 1000) return ' now'
  return ms < 10_000 ? ` in ${Math.round(ms / 1000)} s` : ` in ${formatDuration(ms)}`
}

/** The entry of a delivery. Successful deliveries are minor. `clock_now`: the time of the page's clock. */
export function deliveryItem(delivery: TimelineDelivery, clock_now: number): TimelineItem {
  const { id, status, type, url, next_attempt_at, last_status_code, last_error } = delivery
  const delivered = status === 'delivered'
  const reason = last_error ?? (last_status_code === null ? null : `HTTP ${last_status_code}`)
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
      : `${reason ?? 'Not sent yet'}${next_attempt_at === null ? '' : `; next attempt${dueText(next_attempt_at, clock_now)}`}`,
    is_major: status !== 'delivered' && status !== 'skipped',
    links: (
      <Link to="/webhooks/deliveries/$id" params={{ id }}>
        Delivery
      </Link>
    ),
    details: delivery,
  }
}

/** Entries of provider calls, notifications and postings as sentences. `at`: the name of the called provider. */
export function providerItem(entry: TimelineEntry, at: string): TimelineItem {
  const { kind, name, outcome, details } = entry
  const item = entryItem(entry)
  if (kind === 'provider_call')
    return {
      ...item,
      name: `Called ${at}: ${name}`,
      note: details['last_sent_at'] === entry.at ? undefined : 'sent more than once, with the same key',
      is_major: outcome === 'rotated' || outcome === 'discarded',
    }
  if (kind === 'notification')
    return {
      ...item,
      name: `${processorName(String(details['provider']))} reported: ${humanize(name).toLowerCase()}`,
      note: undefined,
      is_major: outcome === 'parked' || outcome === 'received',
      changed: outcome === 'parked' ? 'It waits until its object exists.' : undefined,
    }
  const { amount_minor, credit_account, currency } = details
  const amount = typeof amount_minor === 'number' ? formatMoney(amount_minor, String(currency)) : ''
  return { ...item, name: postingText(name, credit_account, amount), changed: undefined }
}

export const byTime = (a: TimelineItem, b: TimelineItem): number => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0)

/**
 * Sentences about an attempt, by outcome. Each sentence also says what happens next. `at`: the provider's name. `done`,
 * `to_do`, `resource`: the texts of the job in these forms. `next`: the time of the next attempt.
 */
export function attemptSentences(
  { at, done, to_do, resource }: Record<'at' | 'done' | 'to_do' | 'resource', string>,
  next: string,
  { in_doubt, rotated, error }: TimelineEntry['details'],
): Partial<Record<string, [sentence: string, follows?: string | undefined]>> {
  const { message } = Object(error) as { message?: unknown }
  const unconfirmed = `${at} did not confirm whether it did ${to_do}`
  const no_effect = `${at} did not ${to_do}, and nothing took effect`
  return {
    done: [done],
    declined: [`${at} refused to ${to_do}`, typeof message === 'string' ? message : undefined],
    retry:
      rotated === true
        ? [no_effect, `It is retried with a new key${next}.`]
        : in_doubt === true
          ? [unconfirmed, `Another attempt follows${next}.`]
          : [no_effect, `It is retried${next}.`],
    ambiguous: [unconfirmed, `It is retried with the same key${next}.`],
    unknown: [
      `It is unknown whether ${at} did ${to_do}`,
      `It is looked up${next}, and sent again only if it did not take effect.`,
    ],
    misconfigured: [`${at} refused our credentials`, 'An operator has to correct them.'],
    returned: ['Nothing was sent', `Another attempt follows${next}.`],
    parked: [`Not done: ${to_do}`, 'It waits for an operator.'],
    discarded: [`An operator discarded the ${resource}`],
    resolved: [`An operator decided the outcome of the ${resource}`],
  }
}
