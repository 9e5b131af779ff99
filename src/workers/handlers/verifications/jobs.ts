// Performs the jobs of verifications: opens a session at the provider, requests another link, cancels the session.
import type { Outcome } from '#core/outcome.ts'
import { isCancelable } from '#domain/reconciliation/duplicates.ts'
import { findVerificationByIds, findDatabaseTime } from '#domain/verifications/find.ts'
import { verificationLinkContext } from '#domain/verifications/sealed.ts'
import { emptyVerificationUpdate, type VerificationUpdate } from '#domain/verifications/settle.ts'
import { cancelVerification, createVerification, linkVerification } from '#jobs/verifications.ts'
import type { IdentitySession } from '#providers/identity.ts'
import type { WorkerContext } from '../../context.ts'
import { discard, done, failed, continueWith, unanswered, unknown, type Decision } from '../../decision.ts'
import { HARMLESS, filteredListRange } from '../absence.ts'
import { changeAtProvider, MAX_GENERATIONS } from '../change.ts'
import { createAtProvider, resendUnderNewKey } from '../create.ts'
import { calling, handling, type JobOf } from '../handler.ts'
import { cancelDuplicate } from '../duplicates/effects.ts'
import { verificationUpdate, settlingVerification } from './effects.ts'

type CreateVerificationJob = JobOf<typeof createVerification>
type LinkVerificationJob = JobOf<typeof linkVerification>
type CancelVerificationJob = JobOf<typeof cancelVerification>

export const verificationHandlers = {
  [createVerification.name]: calling(createVerification, create),
  [linkVerification.name]: handling(linkVerification, link, (_context, _job, reason) =>
    Promise.resolve(discard(reason)),
  ),
  [cancelVerification.name]: calling(cancelVerification, cancel),
}

/** A request for a link fails after this time without an answer. */
const LINK_REQUEST_TTL_MS = 3_600_000
const UNREACHABLE = {
  code: 'processor_error',
  message: 'The identity provider could not be reached.',
} as const

/** Opens a session, unless the verification was decided manually before the call. */
async function create(context: WorkerContext, job: CreateVerificationJob): Promise<Decision> {
  const { sql, identity } = context
  const { call } = job
  const { tenant_id, kyc_id } = idsOf(job)
  const findRow = async () => await findVerificationByIds(sql, { tenant_id, id: kyc_id })
  const verification = await findRow()
  if (verification?.decided_by === 'manual' && verification.provider_reference === null && !call.in_doubt)
    return failed(decided('The verification was decided before the call to the provider.'), { unsent: true })
  return await createAtProvider<DatedSession>(context, job, {
    row: { tenant_id, resource: 'kyc', id: kyc_id },
    provider: identity,
    // The person waits, so one lookup that does not find the session suffices to send the call again. A session that
    // appears later is harmless: its link was never given out.
    absence: HARMLESS,
    // A new session has its initial state, so no time is needed to order this answer.
    send: async (key) => withAsOf(await identity.openSession(call.request, key), null),
    isUndecided: () => false,
    findReference: async () => (await findRow())?.provider_reference ?? null,
    find: (reference) => findSession(context, reference),
    search: () => search(context, job),
    matchesRequest: (session) => (session.metadata['sluice_kyc_id'] ?? kyc_id) === kyc_id,
    onMismatch: async ({ reference }) => unknown(`${reference} belongs to another verification`),
    created: (session) => decideOpened(context, job, session),
    // A session has no content that a person would see differently.
    adopt: () => Promise.resolve(undefined),
    refused: (failure) => refused(job, failure),
    absent: resendUnderNewKey,
    unreachable: UNREACHABLE,
    unsent: null,
  })
}

function refused(job: CreateVerificationJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  return failed(failure, {
    effects: verificationEffects(unreportedUpdate(job, 'refused', { code, message })),
  })
}

/** A session with the database's time before the query. Null for a new session. */
type DatedSession = IdentitySession & { as_of: string | null }

function withAsOf(outcome: Outcome<IdentitySession>, as_of: string | null): Outcome<DatedSession>
function withAsOf(
  outcome: Outcome<IdentitySession | null>,
  as_of: string | null,
): Outcome<DatedSession | null>
function withAsOf(
  outcome: Outcome<IdentitySession | null>,
  as_of: string | null,
): Outcome<DatedSession | null> {
  if (outcome.kind !== 'done') return outcome
  return { kind: 'done', value: outcome.value && { ...outcome.value, as_of } }
}

async function findSession(
  { sql, identity }: WorkerContext,
  reference: string,
): Promise<Outcome<DatedSession | null>> {
  const as_of = await findDatabaseTime(sql)
  return withAsOf(await identity.findSession(reference), as_of)
}

// Finds the session by our own id in the list. Lists contain no links, so the session is then fetched.
async function search(
  context: WorkerContext,
  job: CreateVerificationJob,
): Promise<Outcome<DatedSession | null>> {
  const searched = await context.identity.searchSession({ ...job.payload, ...filteredListRange(job) })
  if (searched.kind !== 'done') return searched
  if (searched.value === null) return { kind: 'done', value: null }
  const { reference } = searched.value
  const found = await findSession(context, reference)
  // The list contains the session, so a fetch that does not find the session proves nothing.
  if (found.kind === 'done' && found.value === null)
    return { kind: 'retry', reason: `the provider lists ${reference} but does not find it` }
  return found
}

// Decides for an opened session. If earlier keys may have opened sessions, these are canceled. First the row stores the
// reference of its own session: without the reference, the end of a duplicate would end the verification, because the
// duplicate carries our ids.
function decideOpened(context: WorkerContext, job: CreateVerificationJob, session: DatedSession): Decision {
  const { reference, as_of } = session
  const effects = verificationEffects(withLink(context, job, session, as_of))
  if (job.call.generation === 1) return done({ reference, effects })
  return continueWith(effects, () => cancelOtherSessions(context, job, reference))
}

async function cancelOtherSessions(
  context: WorkerContext,
  job: CreateVerificationJob,
  reference: string,
  handled: string[] = [],
): Promise<Decision> {
  const filter = { ...job.payload, ...filteredListRange(job), except: [reference, ...handled] }
  const lookup = await context.identity.searchSession(filter)
  if (lookup.kind !== 'done') return unanswered(lookup, { publish_state: true })
  const other = lookup.value
  if (other === null) return done({ reference })
  const next = () => cancelOtherSessions(context, job, reference, [...handled, other.reference])
  if (!isCancelable('kyc', other.status)) return await next()
  const row = { tenant_id: job.tenant_id, id: job.payload.kyc_id }
  return continueWith(cancelDuplicate('kyc', row, other.reference), next)
}

/** Requests another link. The provider has a link only while the session waits for the person. */
async function link(context: WorkerContext, job: LinkVerificationJob): Promise<Decision> {
  const { sql, identity } = context
  const verification = await findVerificationByIds(sql, { tenant_id: job.tenant_id, id: job.payload.kyc_id })
  if (verification === undefined || verification.provider_reference === null)
    return discard('the verification has no session')
  if (verification.status !== 'requires_input') return failed(notLinkable(verification.status))
  const as_of = await findDatabaseTime(sql)
  const lookup = await identity.findSession(verification.provider_reference)
  if (lookup.kind !== 'done')
    return job.age_ms > LINK_REQUEST_TTL_MS ? failed(UNREACHABLE) : unanswered(lookup)
  const session = lookup.value
  if (session === null)
    return failed({ code: 'processor_error', message: 'The identity provider does not know the session.' })
  const update = withLink(context, job, session, as_of)
  if (update.link !== null) return done({ effects: verificationEffects(update) })
  const becomes = STATUS_BY_SESSION[session.status]
  return failed(notLinkable(becomes), { effects: verificationEffects(update) })
}

const STATUS_BY_SESSION = {
  requires_input: 'requires_input',
  processing: 'processing',
  verified: 'approved',
  canceled: 'rejected',
} as const

function notLinkable(status: string): { code: string; message: string } {
  return status === 'approved' || status === 'rejected'
    ? decided(`The verification is ${status}.`)
    : { code: 'kyc_not_linkable', message: `There is no link: the verification is ${status}.` }
}

function decided(message: string) {
  return { code: 'kyc_already_decided', message }
}

/** Cancels a session that waits for the person. */
async function cancel(context: WorkerContext, job: CancelVerificationJob): Promise<Decision> {
  const { sql, identity } = context
  const { reference } = job.call.request
  const endWith = (session: DatedSession) =>
    done({ reference, effects: verificationEffects(verificationUpdate(idsOf(job), session, session.as_of)) })
  return await changeAtProvider<DatedSession>(context, job, {
    reference,
    max_generations: MAX_GENERATIONS,
    send: async (key) => {
      const as_of = await findDatabaseTime(sql)
      return withAsOf(await identity.cancelSession(reference, key), as_of)
    },
    find: () => findSession(context, reference),
    // A session that does not wait for the person needs no cancellation.
    changed: (session) => (session.status === 'requires_input' ? null : endWith(session)),
    otherwise: () => null,
    unchanged: (_session, refusal) =>
      failed(refusal ?? UNREACHABLE, {
        effects: verificationEffects(unreportedUpdate(job, 'cancel_refused')),
      }),
    missing: () => done({ reference, effects: verificationEffects(unreportedUpdate(job, 'canceled')) }),
  })
}

/** The update of a verification by a session. The session's link is sealed for the job. */
function withLink(
  { vault, identity }: WorkerContext,
  job: CreateVerificationJob | LinkVerificationJob,
  session: IdentitySession,
  as_of: string | null,
): VerificationUpdate {
  const ids = idsOf(job)
  const { url } = session
  const sealed =
    url === null ? null : vault.seal(url, verificationLinkContext(ids.tenant_id, ids.kyc_id, job.id))
  return {
    ...verificationUpdate(ids, session, as_of),
    link: sealed === null ? null : { sealed, valid_ms: identity.url_lifetime_ms },
  }
}

function unreportedUpdate(
  job: CreateVerificationJob | CancelVerificationJob,
  reported: 'refused' | 'canceled' | 'cancel_refused',
  failure: { code: string; message: string } | null = null,
): VerificationUpdate {
  return { ...emptyVerificationUpdate, ...idsOf(job), reported, failure }
}

const verificationEffects = (update: VerificationUpdate) =>
  settlingVerification({ update, notification_id: null })

function idsOf({ tenant_id, payload }: CreateVerificationJob | LinkVerificationJob | CancelVerificationJob) {
  return { tenant_id, kyc_id: payload.kyc_id }
}
