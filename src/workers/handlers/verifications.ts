// Performs the jobs of verifications: opens a session at the provider, asks for another link to it, lets go of it.
import type { Outcome } from '#core/outcome.ts'
import { isUndoable } from '#domain/reconciliation/duplicates.ts'
import { findVerificationByIds, findTime } from '#domain/verifications/find.ts'
import { verificationLinkPlace } from '#domain/verifications/sealed.ts'
import type { VerificationTold } from '#domain/verifications/settle.ts'
import { cancelVerification, createVerification, linkVerification } from '#jobs/verifications.ts'
import type { IdentitySession } from '#providers/identity.ts'
import type { WorkerContext } from '../context.ts'
import {
  discard,
  done,
  failed,
  goOn,
  rotate,
  unanswered,
  undone,
  unknown,
  type Decision,
} from '../decision.ts'
import { NEVER_TOOK_EFFECT, OTHER_CREDENTIALS, timesSinceAsked, wasSentHere } from './absence.ts'
import { mayHideAnEffect, MAX_GENERATIONS, neverSent, TOO_LATE } from './calls.ts'
import { calling, handling, type JobOf } from './handler.ts'
import { cancelDuplicate } from './notifications/duplicates.ts'
import { verificationTold, settlingVerification } from './notifications/verifications.ts'

type CreateVerificationJob = JobOf<typeof createVerification>
type LinkVerificationJob = JobOf<typeof linkVerification>
type CancelVerificationJob = JobOf<typeof cancelVerification>
type SessionOutcome = Outcome<IdentitySession>

export const verificationHandlers = {
  [createVerification.name]: calling(createVerification, create),
  [linkVerification.name]: handling(linkVerification, link, (_context, _job, reason) =>
    Promise.resolve(discard(reason)),
  ),
  [cancelVerification.name]: calling(cancelVerification, cancel),
}

/** Nobody waits for a link any longer. */
const LINK_WANTED_MS = 3_600_000
const UNREACHABLE = {
  code: 'processor_error',
  message: 'The identity provider could not be reached.',
} as const

/** Opens a session. One that was decided by hand meanwhile needs none. */
async function create(context: WorkerContext, job: CreateVerificationJob): Promise<Decision> {
  const { sql, identity } = context
  const { call } = job
  const verification = await findVerificationByIds(sql, { tenant_id: job.tenant_id, id: job.payload.kyc_id })
  if (verification?.decided_by === 'manual' && verification.provider_reference === null && !call.in_doubt)
    return failed(decided('The verification was decided before the provider was asked.'), { unsent: true })
  const sent: SessionOutcome = call.look_only ? TOO_LATE : await identity.openSession(call.request, call.key)
  if (sent.kind === 'done') return await openedOnce(context, job, sent.value)

  if (mayHideAnEffect(call, sent)) {
    const as_of = await findTime(sql)
    const looked = await look(context, job, verification?.provider_reference ?? null)
    if (looked.kind !== 'done') return unanswered(looked)
    const found = looked.value
    const named = found?.metadata['sluice_kyc_id'] ?? job.payload.kyc_id
    if (found !== null && named !== job.payload.kyc_id)
      return unknown(`${found.reference} is of another verification`)
    if (found !== null) return opened(context, job, found, as_of)
    if (sent.kind !== 'declined' || sent.failure.code === 'processor_error') {
      const reference = call.reference ?? verification?.provider_reference
      if (reference != null) return unknown(`the provider does not know ${reference}`)
      // At once: the person waits, nobody ever gets the page of a session that shows up later, and it is canceled.
      return (await wasSentHere(context, job.sendings, identity))
        ? rotate(NEVER_TOOK_EFFECT)
        : unknown(OTHER_CREDENTIALS)
    }
  }
  if (sent.kind === 'declined') return refused(job, sent.failure)
  if (neverSent(call, sent)) return refused(job, UNREACHABLE)
  return undone(sent)
}

// Finds the session by the reference that is known, else by our own id; a list shows no link.
async function look({ identity }: WorkerContext, job: CreateVerificationJob, known: string | null) {
  const reference = job.call.reference ?? known
  if (reference !== null) return await identity.findSession(reference)
  const searched = await identity.searchSession({ ...job.payload, ...timesSinceAsked(job) })
  if (searched.kind !== 'done' || searched.value === null) return searched
  return await identity.findSession(searched.value.reference)
}

// A session that was opened under a new key: those that earlier keys have made after all are canceled. Before that the
// verification knows its own: by our ids alone, the end of a duplicate would be its end.
async function openedOnce(
  context: WorkerContext,
  job: CreateVerificationJob,
  session: IdentitySession,
): Promise<Decision> {
  const ends = opened(context, job, session, null)
  if (job.call.generation === 1 || ends.tells === undefined) return ends
  return goOn(ends.tells, () => cancelOthers(context, job, [session.reference]))
}

async function cancelOthers(
  context: WorkerContext,
  job: CreateVerificationJob,
  known: string[],
): Promise<Decision> {
  const asked = { ...job.payload, ...timesSinceAsked(job), except: known }
  const looked = await context.identity.searchSession(asked)
  if (looked.kind !== 'done') return unanswered(looked, { reached: true })
  const other = looked.value
  if (other === null) return done({ reference: known[0]! })
  const next = () => cancelOthers(context, job, [...known, other.reference])
  if (!isUndoable('kyc', other.status)) return await next()
  const row = { tenant_id: job.tenant_id, id: job.payload.kyc_id }
  return goOn(cancelDuplicate('kyc', row, other.reference), next)
}

function opened(
  context: WorkerContext,
  job: CreateVerificationJob,
  session: IdentitySession,
  as_of: string | null,
): Decision {
  const told = withLink(context, job, session, as_of)
  return done({ reference: session.reference, tells: about(told) })
}

function refused(job: CreateVerificationJob, failure: { code: string; message: string }): Decision {
  const { code, message } = failure
  return failed(failure, { tells: about(nothing(job, 'refused', { code, message })) })
}

/** Asks for another link, which the provider gives only while the session waits for the person. */
async function link(context: WorkerContext, job: LinkVerificationJob): Promise<Decision> {
  const { sql, identity } = context
  const verification = await findVerificationByIds(sql, { tenant_id: job.tenant_id, id: job.payload.kyc_id })
  if (verification === undefined || verification.provider_reference === null)
    return discard('there is no session')
  if (verification.status !== 'requires_input') return failed(notLinkable(verification.status))
  const as_of = await findTime(sql)
  const looked = await identity.findSession(verification.provider_reference)
  if (looked.kind !== 'done') return job.age_ms > LINK_WANTED_MS ? failed(UNREACHABLE) : unanswered(looked)
  const session = looked.value
  if (session === null)
    return failed({ code: 'processor_error', message: 'The identity provider does not know the session.' })
  const told = withLink(context, job, session, as_of)
  if (told.link !== null) return done({ tells: about(told) })
  const becomes = STANDS[session.status]
  return failed(notLinkable(becomes), { tells: about(told) })
}

const STANDS = {
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

/** Lets go of a session that still waits for the person. How it stands decides after a refusal or in doubt. */
async function cancel(context: WorkerContext, job: CancelVerificationJob): Promise<Decision> {
  const { sql, identity } = context
  const { call } = job
  const { reference } = call.request
  const as_of = await findTime(sql)
  const sent: SessionOutcome = call.look_only ? TOO_LATE : await identity.cancelSession(reference, call.key)
  if (sent.kind === 'done')
    return done({ reference, tells: about(verificationTold(idsOf(job), sent.value, as_of)) })
  const never_sent = neverSent(call, sent)
  const doubtful = sent.kind === 'declined' || (sent.kind === 'ambiguous' && sent.replayed)
  if (!doubtful && !never_sent) return undone(sent)

  const asked_at = await findTime(sql)
  const looked = await identity.findSession(reference)
  if (looked.kind !== 'done') return unanswered(looked, { unsent: never_sent })
  const found = looked.value
  if (found === null) return unknown(`the provider does not know ${reference}`)
  // What is not waiting for the person needs no cancellation.
  if (found.status !== 'requires_input')
    return done({ reference, tells: about(verificationTold(idsOf(job), found, asked_at)) })
  if (sent.kind === 'ambiguous' && call.generation < MAX_GENERATIONS) return rotate(sent.reason)
  return failed(sent.kind === 'declined' ? sent.failure : UNREACHABLE, { tells: about(nothing(job, 'kept')) })
}

/** What is said of a session, with its link sealed for the job. */
function withLink(
  { vault, identity }: WorkerContext,
  job: CreateVerificationJob | LinkVerificationJob,
  session: IdentitySession,
  as_of: string | null,
): VerificationTold {
  const ids = idsOf(job)
  const { url } = session
  const sealed =
    url === null ? null : vault.seal(url, verificationLinkPlace(ids.tenant_id, ids.kyc_id, job.id))
  return {
    ...verificationTold(ids, session, as_of),
    link: sealed === null ? null : { sealed, lives_ms: identity.url_lives_ms },
  }
}

function nothing(
  job: CreateVerificationJob | CancelVerificationJob,
  said: 'refused' | 'kept',
  failure: { code: string; message: string } | null = null,
): VerificationTold {
  return { ...idsOf(job), said, as_of: null, provider_reference: null, failure, link: null }
}

const about = (told: VerificationTold) => settlingVerification({ told, notification_id: null })

function idsOf({ tenant_id, payload }: CreateVerificationJob | LinkVerificationJob | CancelVerificationJob) {
  return { tenant_id, kyc_id: payload.kyc_id }
}
