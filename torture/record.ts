// What clients have seen: each acceptance and each final answer, to be held against the books afterwards.

import type { Problem } from '#test/invariants.ts'
import type { Histories } from './history/call.ts'
import type { Observations } from './observations.ts'

/** What goes on after it was created. */
export type Created =
  | 'customer'
  | 'merchant'
  | 'recipient'
  | 'payment'
  | 'top_up'
  | 'payout'
  | 'kyc'
  | 'message'
export type Kind =
  | Created
  | 'capture'
  | 'cancel'
  | 'refund'
  | 'cancel_payout'
  | 'fail_payout'
  | 'decide'
  | 'link'
  | 'cancel_message'

/** A request that was answered 2xx, or 402: it is on record for good. */
export type Accepted = {
  kind: Kind
  key: string
  /** Of the customer, payment, refund, payout and so on. */
  id: string
  /** When, on the clock of `performance.now()`. */
  at: number
  /** The latest state that a client was shown. */
  status: string | null
  amount_minor: number | null
}

export type ClientRecord = {
  accepted: Map<string, Accepted>
  requests: number
  /** Of each status how many, of an error of ours with its code; 0: the connection broke. */
  answers: Map<string, number>
  /** Of those how many were not answered, or with 5xx by us and not for a provider that failed. */
  refused: number
  /** When a replay was answered. */
  replays: number[]
  problems: Problem[]
  histories: Histories
  observations: Observations
  /** By the key of a payout, top-up, verification or message: the statuses in which its story may leave it. */
  ends: Map<string, string[]>
}

export function emptyRecord(): ClientRecord {
  return {
    accepted: new Map(),
    requests: 0,
    answers: new Map(),
    refused: 0,
    replays: [],
    problems: [],
    histories: new Map(),
    observations: new Map(),
    ends: new Map(),
  }
}

const FINAL = new Set(['captured', 'canceled', 'failed', 'succeeded', 'approved', 'rejected'])

/** What stays once a client was shown it, of what was asked for. */
export function isFinal(status: string | null): boolean {
  return status !== null && FINAL.has(status)
}

/** Notes what a client was answered; what contradicts an earlier answer is a problem. */
export function recordAcceptance(seen: ClientRecord, answer: Omit<Accepted, 'at'>): void {
  const before = seen.accepted.get(answer.key)
  if (before === undefined) {
    seen.accepted.set(answer.key, { ...answer, at: performance.now() })
    return
  }
  if (before.id !== answer.id) seen.problems.push({ problem: 'a key led to two resources', before, answer })
  if (isFinal(before.status) && before.status !== answer.status)
    seen.problems.push({ problem: 'a state went backwards', before, answer })
  before.status = answer.status
  before.amount_minor = answer.amount_minor
}
