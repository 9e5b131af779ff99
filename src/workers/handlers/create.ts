// Creates an object at a provider once. Every creation follows this rule: the call is sent under its stored key, or
// only looked up; if it may have taken effect, the provider's records decide; a new key is used only for a call that
// never took effect.
import type { Failure, Outcome } from '#core/outcome.ts'
import { hasDifferentMoney } from '#domain/reconciliation/compare.ts'
import { findDriftingReference } from '#domain/reconciliation/drift.ts'
import { KEY_CONFLICT } from '#domain/jobs/calls.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import type { ProviderResourceName } from '#domain/resources.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../context.ts'
import {
  giveBackUnstarted,
  park,
  retry,
  rotate,
  unanswered,
  retryUndone,
  unknown,
  type Decision,
} from '../decision.ts'
import type { Effects } from '../settle.ts'
import {
  NEVER_TOOK_EFFECT,
  CREDENTIALS_DIFFER,
  confirmAbsence,
  wasSentToAccount,
  type AbsenceRule,
  type QueriedProvider,
  type SentJob,
} from './absence.ts'
import {
  isProviderRefusal,
  mayHaveTakenEffect,
  neverSent,
  sendUnlessLookupOnly,
  type StoredCall,
} from './calls.ts'
import { compare, type ComparedResource } from './notifications/drifts.ts'

/** The resource-specific part of a creation. Every field is required, so that no resource omits a case. */
export type Creation<Found extends { reference: string }> = {
  /** The row whose drift may have the reference of the object; null for a resource without drifts. */
  row: { tenant_id: string; resource: ProviderResourceName; id: string } | null
  provider: QueriedProvider
  absence: AbsenceRule
  /** Sends the stored request once. */
  send: (key: string) => Promise<Outcome<Found>>
  /**
   * Whether the provider has not decided yet. The same key would return this answer again, so the record is looked up.
   */
  isUndecided: (answer: Found) => boolean
  /** Reads the provider's id from the resource row: a notification may have arrived before the answer of the call. */
  findReference: () => Promise<string | null>
  find: (reference: string) => Promise<Outcome<Found | null>>
  /**
   * Searches the provider's records by our own ids. `proves`: whether a complete list without the record can prove that
   * the call never took effect. `decides`: whether the result of this search ends the job or sends the call again, so
   * that the search must read the complete list. `any_content`: the record may differ from the request.
   */
  search: (needed: {
    proves: boolean
    decides: boolean
    any_content?: true
  }) => Promise<Outcome<Found | null>>
  /** Whether the record matches the request. */
  matchesRequest: (found: Found) => boolean
  /** Decides for a record that does not match the request. Its money is not posted. */
  onMismatch: (found: Found) => Promise<Decision>
  created: (found: Found) => Decision
  /**
   * Decides for a record that a lost request with the same key created with other content: the row takes its content.
   * Undefined: the record is not such a one.
   */
  adopt: (found: Found) => Promise<Decision | undefined>
  /**
   * Decides after a definitive refusal. `reference`: the provider's id of the failed object, if the provider created
   * one.
   */
  refused: (failure: Failure, reference: string | null) => Decision
  /** Decides for a call that never took effect. */
  absent: () => Promise<Decision>
  /** The failure if no call could reach the provider for a day. */
  unreachable: Failure
  /** The effects of an attempt that sent nothing; null if the resource row does not record whether a call began. */
  unsent: Effects | null
}

/** The delay of the next lookup if the provider did not answer the lookup after a conflict of keys. */
const CONFLICT_LOOKUP_DELAY_MS = 60_000

type CreatingJob = SentJob & { call: StoredCall }
type Refusal = Extract<Outcome<never>, { kind: 'declined' }>

/** Makes one attempt at a creation. */
export async function createAtProvider<Found extends { reference: string }>(
  context: WorkerContext,
  job: CreatingJob,
  creation: Creation<Found>,
): Promise<Decision> {
  const { call } = job
  if (call.has_key_conflict) return await decideKeyConflict(creation)
  // A request that was repeated after a switch waits until the lists have been read. The provider may have forgotten
  // the key of the call that created the object. If the object has other money, only the drift has its reference.
  const { row } = creation
  const reference =
    call.waited_for_lists && !call.lookup_only
      ? ((await creation.findReference()) ?? (row && (await findDriftingReference(context.sql, row))))
      : null
  if (reference !== null) return await lookUpCreation(context, job, creation, { reference })
  const sent = await sendUnlessLookupOnly(call, creation.send).catch(notStarted)
  if (sent instanceof NotStarted) return withUnsentEffects(creation, giveBackUnstarted(sent))
  if (sent.kind === 'done') {
    const { value: answer } = sent
    if (!creation.isUndecided(answer)) return await decide(creation, answer)
    return await lookUpCreation(context, job, creation, { reference: answer.reference })
  }
  if (sent.kind === 'declined' && !isProviderRefusal(sent)) return await decideKeyConflict(creation)
  if (mayHaveTakenEffect(call, sent))
    return await lookUpCreation(context, job, creation, sent.kind === 'declined' ? { refusal: sent } : {})
  if (sent.kind === 'declined') return creation.refused(sent.failure, sent.reference ?? null)
  if (neverSent(call, sent)) return creation.refused(creation.unreachable, null)
  return sent.kind === 'ambiguous' ? retryUndone(sent) : withUnsentEffects(creation, retryUndone(sent))
}

/**
 * Decides by the provider's records about a creation that may have taken effect. `refusal`: the provider's refusal of
 * this attempt.
 */
export async function lookUpCreation<Found extends { reference: string }>(
  context: WorkerContext,
  job: CreatingJob,
  creation: Creation<Found>,
  { reference: answered, refusal }: { reference?: string; refusal?: Refusal } = {},
): Promise<Decision> {
  const { send_history, call } = job
  const next_ms = refusal && nextRefusalLookup(job, creation)
  const reference = answered ?? call.reference ?? (await creation.findReference())
  const proves = await wasSentToAccount(context, send_history, creation.provider)
  const pending = proves ? confirmAbsence(send_history, creation.absence) : unknown(CREDENTIALS_DIFFER)
  const is_last = refusal !== undefined && next_ms === undefined
  const lookup =
    reference === null
      ? await creation.search({ proves, decides: proves && (is_last || pending === undefined) })
      : await creation.find(reference)
  if (lookup.kind !== 'done') return unanswered(lookup, { unsent: refusal !== undefined })
  const found = lookup.value
  if (found !== null) return (await creation.adopt(found)) ?? (await decide(creation, found))
  if (reference !== null) return unknown(`the provider does not know ${reference}`)
  if (refusal === undefined) return pending ?? (await creation.absent())
  if (!proves) return unknown(CREDENTIALS_DIFFER)
  if (next_ms === undefined) return creation.refused(refusal.failure, refusal.reference ?? null)
  const delay_ms = next_ms - (call.refused_ms ?? 0)
  return retry(refusal.failure.message, { delay_ms, unsent: true, answered: true })
}

/**
 * Decides about a call whose key the provider knows with other content: our database lost the request that first had
 * this key. If its object is found, the row takes its content, and the present request is refused. An absence proves
 * nothing: the call gets no new key, and the job waits for an operator.
 */
async function decideKeyConflict<Found extends { reference: string }>(
  creation: Creation<Found>,
): Promise<Decision> {
  const lookup = await creation.search({ proves: false, decides: false, any_content: true })
  const found = lookup.kind === 'done' ? lookup.value : null
  const adopted = found === null ? undefined : await creation.adopt(found)
  if (adopted !== undefined) return adopted
  if (found !== null && creation.matchesRequest(found)) return creation.created(found)
  const known = found === null ? '' : `, as ${found.reference}`
  return park(`the provider knows the key of the call with other content${known}`, {
    code: KEY_CONFLICT,
    ...(lookup.kind !== 'done' && { delay_ms: CONFLICT_LOOKUP_DELAY_MS }),
  })
}

/** Decides for a record that does not match the request. If its money differs from `requested`, opens a drift. */
export async function reportMismatch(
  context: WorkerContext,
  compared: ComparedResource,
  ours: { tenant_id: string; id: string },
  { requested, theirs, reference }: { requested: Omit<Side, 'status'>; theirs: Side; reference: string },
): Promise<Decision> {
  if (hasDifferentMoney({ ...theirs, ...requested }, theirs)) {
    const result = await compare(context, compared, ours, theirs, { reference })
    if (result.kind !== 'done') return unanswered(result)
  }
  return unknown(`${reference} is another ${compared.resource.replace('_', '-')}`)
}

/** Decides for a call that never took effect: the call is sent again under a new key. */
export async function resendUnderNewKey(): Promise<Decision> {
  return rotate(NEVER_TOOK_EFFECT)
}

async function decide<Found extends { reference: string }>(
  { matchesRequest, created, onMismatch }: Creation<Found>,
  found: Found,
): Promise<Decision> {
  return matchesRequest(found) ? created(found) : await onMismatch(found)
}

/**
 * When a refused call is looked up again because an earlier attempt may have reached the provider: milliseconds after
 * the first refusal. Undefined: the refusal is final.
 */
function nextRefusalLookup({ call }: CreatingJob, { absence }: { absence: AbsenceRule }): number | undefined {
  return absence.refusal_lookups_ms.find((each_ms) => each_ms > (call.refused_ms ?? 0))
}

function withUnsentEffects({ unsent }: { unsent: Effects | null }, decision: Decision): Decision {
  return unsent === null ? decision : { ...decision, effects: unsent }
}

/** A pause or the stop of the worker prevented the call. */
function notStarted(error: unknown): NotStarted {
  if (error instanceof NotStarted) return error
  throw error
}
