// Records accepted requests and their final answers, to compare them with the database.

import type { Problem } from '#test/invariants.ts'
import type { Client } from '#test/client.ts'
import type { Histories } from './history/call.ts'
import type { Observations } from './observations.ts'

/** Resources that change after their creation. */
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

/** A request that was answered with 2xx or 402, so it must be stored. */
export type Accepted = {
  kind: Kind
  key: string
  /** Id of the customer, payment, refund, payout and so on. */
  id: string
  /** Clock: `performance.now()`. */
  at: number
  /** The latest status that a client observed. */
  status: string | null
  amount_minor: number | null
}

/** A request with a key that was answered with 2xx or 402. */
export type SentRequest = {
  scenario: string
  clients: Client[]
  path: string
  body: unknown
  /** Clock: `performance.now()`. */
  accepted_at: number
}

/**
 * The database went back to `since`. What it has after `until` was written after the switch. Clock:
 * `performance.now()`.
 */
export type Switch = { since: number; until: number }

export type ClientRecord = {
  accepted: Map<string, Accepted>
  requests: number
  /** Number of answers by status; server errors by status and code. Status 0: the connection broke. */
  answers: Map<string, number>
  /** Number of requests without an answer, or with a 5xx that no provider failure explains. */
  refused: number
  /** Times of replayed answers. */
  replays: number[]
  problems: Problem[]
  histories: Histories
  observations: Observations
  /** The statuses in which a scenario may leave a payout, top-up, verification or message, by idempotency key. */
  ends: Map<string, string[]>
  sent: SentRequest[]
  /** The times after which the database went back. */
  switches: Switch[]
  /** Keys of scenarios of which the database has lost something. */
  interrupted: Set<string>
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
    sent: [],
    switches: [],
    interrupted: new Set(),
  }
}

/** Whether the scenario with this idempotency key was interrupted. */
export function isInterrupted({ interrupted }: Pick<ClientRecord, 'interrupted'>, key: string): boolean {
  const [scenario] = /^[a-z]+-\d+/.exec(key) ?? []
  return scenario !== undefined && interrupted.has(scenario)
}

const FINAL = new Set(['captured', 'canceled', 'failed', 'succeeded', 'approved', 'rejected'])

/** True if the status is final: all later answers must show the same status. */
export function isFinal(status: string | null): boolean {
  return status !== null && FINAL.has(status)
}

/** Records an answer. A contradiction to an earlier answer is a problem. */
export function recordAcceptance(record: ClientRecord, answer: Omit<Accepted, 'at'>): void {
  const before = record.accepted.get(answer.key)
  if (before === undefined) {
    record.accepted.set(answer.key, { ...answer, at: performance.now() })
    return
  }
  if (before.id !== answer.id) record.problems.push({ problem: 'a key has two resources', before, answer })
  if (isFinal(before.status) && before.status !== answer.status)
    record.problems.push({ problem: 'a state went backwards', before, answer })
  before.status = answer.status
  before.amount_minor = answer.amount_minor
}
