// The rules that keep a switch of the database harmless. Each can be broken, to see what it prevents.
import type { Kind } from './state.ts'

export const RULES = {
  derived_ids: 'a repeated request has the ids, and so the key at the provider, of the request that was lost',
  witness: 'a rewind that keeps the timeline is noticed by the witness',
  claims_notice: 'a claim on a server that is not on record claims nothing',
  accepts_notice: 'a request on a server that is not on record is not accepted',
  newest_before_start:
    'T is the newest change before the start of the server: what is written until the switch is recorded does not count',
  counts_as_sent: 'open due jobs count as possibly sent',
  from_creation: 'their keys count as used since their creation',
  sent_until_switch: 'their last possible send is the switch: only an absence long after it proves something',
  leases_end: 'the record of a switch ends the leases of open jobs: what was seen before decides nothing',
  looked_up_first: 'where T is minutes ago, open jobs are looked up before they are sent again',
  payouts_looked_up: 'open payouts are looked up before they are sent again, however recent T is',
  cancel_counts_as_sent: 'a cancellation or failure of a payout counts its call as started',
  cancel_waits: 'while the lists have not been read, a cancellation of any payout is only recorded',
  parked_count_as_sent: 'parked and delayed jobs count as possibly sent too',
  payouts_wait: 'payouts wait until the lists of the provider have been read',
  creations_wait: 'where T is a day ago, every creation waits for the lists',
  creations_wait_early: 'where T is minutes ago, every creation waits for the lists',
  rows_recovered: 'what only the provider has becomes a row before payouts go on',
  open_rows_settled: 'what the provider has settles an open row too, before payouts go on',
  lists_wait: 'the lists are read once no call from before the switch can arrive any more',
  oldest_unread: 'the lists are read from the oldest T whose lists have not been read',
  judged_again: 'a payout that is not covered any more, and certainly unsent, fails instead of being sent',
  refusals_wait: 'no payout is refused for its balance while the lists have not been read',
  restore_paused: 'after a restore nothing is called before the release',
  messages_wait: 'messages that fall due after the switch wait for the release',
  lost_messages_wait:
    'a message whose request is known to be lost counts as possibly sent when it is repeated',
  mark: 'of two primaries, only the one with the mark claims and accepts',
} as const

export type Rule = keyof typeof RULES

/** What is explored. */
export type Scenario = {
  kinds: readonly Kind[]
  /** How many payouts the account covers. */
  balance?: number
  rewinds: number
  /** Whether the old primary runs on. */
  promotion?: boolean
  /** Calls with keys up to this generation may get lost, be refused, or fail with a stored error. */
  faulty_generations: number
  /** Emails are scheduled for later. */
  scheduled?: boolean
  /** Clients repeat requests that were lost. Default: true. */
  repeats?: boolean
  /** Rules that do not hold. */
  broken?: readonly Rule[]
}

export function holds(scenario: Scenario, rule: Rule): boolean {
  return scenario.broken?.includes(rule) !== true
}

/** Whether the account covers its payouts, by the facts of this database. */
export function isCovered(
  { kinds, balance = 1 }: Scenario,
  rows: readonly ({ status: string } | null)[],
): boolean {
  const reserved = rows.filter(
    (row, i) => kinds[i] === 'payout' && (row?.status === 'pending' || row?.status === 'succeeded'),
  )
  return reserved.length <= balance
}
