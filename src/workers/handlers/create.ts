// Creates something at a provider, once. Every creation follows this one rule: the call is sent under its stored key, or
// only looked up; wherever it may hide an effect, the provider's records decide; a new key is used only for what never
// took effect.
import type { Failure, Outcome } from '#core/outcome.ts'
import { isOfOtherMoney } from '#domain/reconciliation/compare.ts'
import type { Side } from '#domain/reconciliation/side.ts'
import { NotStarted } from '#providers/permit.ts'
import type { WorkerContext } from '../context.ts'
import { giveBack, retry, rotate, unanswered, retryUndone, unknown, type Decision } from '../decision.ts'
import type { Effects } from '../settle.ts'
import {
  NEVER_TOOK_EFFECT,
  OTHER_CREDENTIALS,
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

/** A resource's part of its creation. Every field is required, so that no resource forgets a case. */
export type Creation<Found extends { reference: string }> = {
  provider: QueriedProvider
  absence: AbsenceRule
  /** Sends the stored request, once. */
  send: (key: string) => Promise<Outcome<Found>>
  /** Whether the provider has not decided yet. The key would repeat that answer, so the record is looked up. */
  isUndecided: (answer: Found) => boolean
  /** Reads the provider's id from our row: a notification may have been faster than the answer of the call. */
  findReference: () => Promise<string | null>
  find: (reference: string) => Promise<Outcome<Found | null>>
  /**
   * Searches the provider's records by our own ids. `proves`: what a complete list does not show will prove something.
   * `decides`: it does now, so the search must be complete.
   */
  search: (needed: { proves: boolean; decides: boolean }) => Promise<Outcome<Found | null>>
  /** Whether the record is what was asked for. */
  matchesRequest: (found: Found) => boolean
  /** Decides for a record that is not what was asked for. Nothing is settled with it. */
  onMismatch: (found: Found) => Promise<Decision>
  created: (found: Found) => Decision
  /** The provider refused for good. `reference`: its id of the failed object, if it made one. */
  refused: (failure: Failure, reference: string | null) => Decision
  /** The call never took effect. */
  absent: () => Promise<Decision>
  /** Why the creation failed if the provider turned the call away for a whole day. */
  unreachable: Failure
  /** Settles that certainly nothing was sent so far; null where the row does not show it. */
  unsent: Effects | null
}

type CreatingJob = SentJob & { call: StoredCall }
type Refusal = Extract<Outcome<never>, { kind: 'declined' }>

/** Makes one attempt at a creation. */
export async function createAtProvider<Found extends { reference: string }>(
  context: WorkerContext,
  job: CreatingJob,
  creation: Creation<Found>,
): Promise<Decision> {
  const { call } = job
  const sent = await sendUnlessLookupOnly(call, creation.send).catch(notStarted)
  if (sent instanceof NotStarted) return withUnsentEffects(creation, giveBack(sent.message))
  if (sent.kind === 'done') {
    const { value: answer } = sent
    if (!creation.isUndecided(answer)) return await decide(creation, answer)
    return await lookUpCreation(context, job, creation, { reference: answer.reference })
  }
  if (mayHaveTakenEffect(call, sent))
    return await lookUpCreation(context, job, creation, isProviderRefusal(sent) ? { refusal: sent } : {})
  if (sent.kind === 'declined') return creation.refused(sent.failure, sent.reference ?? null)
  if (neverSent(call, sent)) return creation.refused(creation.unreachable, null)
  return sent.kind === 'ambiguous' ? retryUndone(sent) : withUnsentEffects(creation, retryUndone(sent))
}

/** Decides a creation in doubt by the provider's records. `refusal`: how the provider refused this attempt. */
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
  const pending = proves ? confirmAbsence(send_history, creation.absence) : unknown(OTHER_CREDENTIALS)
  const is_last = refusal !== undefined && next_ms === undefined
  const lookup =
    reference === null
      ? await creation.search({ proves, decides: proves && (is_last || pending === undefined) })
      : await creation.find(reference)
  if (lookup.kind !== 'done') return unanswered(lookup, { unsent: refusal !== undefined })
  const found = lookup.value
  if (found !== null) return await decide(creation, found)
  if (reference !== null) return unknown(`the provider does not know ${reference}`)
  if (refusal === undefined) return pending ?? (await creation.absent())
  if (!proves) return unknown(OTHER_CREDENTIALS)
  if (next_ms === undefined) return creation.refused(refusal.failure, refusal.reference ?? null)
  const delay_ms = next_ms - (call.refused_ms ?? 0)
  return retry(refusal.failure.message, { delay_ms, unsent: true, answered: true })
}

/** Decides for a record that is not what was asked for. A record of other money than `asked` is shown as a drift. */
export async function reportMismatch(
  context: WorkerContext,
  compared: ComparedResource,
  ours: { tenant_id: string; id: string },
  { requested, theirs, reference }: { requested: Omit<Side, 'status'>; theirs: Side; reference: string },
): Promise<Decision> {
  if (isOfOtherMoney({ ...theirs, ...requested }, theirs)) {
    const result = await compare(context, compared, ours, theirs, { reference })
    if (result.kind !== 'done') return unanswered(result)
  }
  return unknown(`${reference} is another ${compared.resource.replace('_', '-')}`)
}

/** The call never took effect: it is made again under a new key. */
export async function resendUnderNewKey(): Promise<Decision> {
  return rotate(NEVER_TOOK_EFFECT)
}

async function decide<Found extends { reference: string }>(
  { matchesRequest, created, onMismatch }: Creation<Found>,
  found: Found,
): Promise<Decision> {
  return matchesRequest(found) ? created(found) : await onMismatch(found)
}

/** When a refusal in doubt is looked up again; undefined: it is final. */
function nextRefusalLookup({ call }: CreatingJob, { absence }: { absence: AbsenceRule }): number | undefined {
  return absence.refusal_lookups_ms.find((each_ms) => each_ms > (call.refused_ms ?? 0))
}

function withUnsentEffects({ unsent }: { unsent: Effects | null }, decision: Decision): Decision {
  return unsent === null ? decision : { ...decision, effects: unsent }
}

/** A pause, or the end of the worker, kept the call from leaving. */
function notStarted(error: unknown): NotStarted {
  if (error instanceof NotStarted) return error
  throw error
}
