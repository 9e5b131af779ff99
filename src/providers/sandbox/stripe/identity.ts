// Identity: verification sessions with a hosted page, and their results.
import { type Call, DASHBOARD_CALL } from './call.ts'
import { nowMs, recordS, type Engine } from './engine.ts'
import { parameterRefused, requestRefused } from './errors.ts'
import { emit } from './events.ts'
import { stripeId } from './ids.ts'
import { requireObject, listOf } from './lists.ts'
import { booleanOf, metadataOf, oneOf, required, stringOf, stringsOf } from './params.ts'
import { isParams, type Params } from './parse.ts'
import { PAGING, type Routes } from './route.ts'
import { enumeration, parameters } from './rules.ts'
import { save } from './save.ts'
import { scheduleAfter, scheduleBy, SETTLE_DELAY_MS } from './schedule.ts'
import type { VerificationSession } from './versions.ts'

const TYPES = ['document', 'id_number'] as const
const LINK_LIFETIME_S = 48 * 3600
/** Limit of unused links of a session; each retrieval creates one. */
const MAX_LINKS = 100
export const SESSION_STATUSES = ['verified', 'requires_input', 'processing', 'canceled'] as const
type Status = VerificationSession['status']

/** Stripe's codes and texts of failed checks. */
export const CHECK_FAILURES: Record<string, string> = {
  document_unverified_other: 'The document could not be verified.',
  document_expired: 'The document is expired.',
  document_type_not_supported: 'The document type is not supported.',
  consent_declined: 'The user declined to be verified.',
  abandoned: 'The user did not finish the verification.',
  selfie_face_mismatch: 'The face of the selfie is not that of the document.',
  under_supported_age: 'The user is too young to be verified.',
}

export function findSession(engine: Engine, id: string): VerificationSession {
  return requireObject(engine.store.sessions, 'verification_session', id)
}

function createSession(engine: Engine, call: Call, params: Params): VerificationSession {
  const type = required(oneOf(params, 'type', TYPES), 'type')
  const session = save(engine, {
    object: 'identity.verification_session',
    id: stripeId('vs_1'),
    created: recordS(engine),
    revision: 0,
    type,
    status: 'requires_input',
    options: type === 'document' ? { document: documentOf(params) } : { id_number: {} },
    provided_details: hashOf(params, 'provided_details'),
    client_reference_id: stringOf(params, 'client_reference_id'),
    related_customer: stringOf(params, 'related_customer'),
    return_url: urlOf(params, 'return_url'),
    last_error: null,
    report: null,
    redaction: null,
    link: null,
    unused: [],
    metadata: metadataOf(params, {}),
  })
  emit(engine, call, 'identity.verification_session.created', session)
  return withNewLink(engine, session)
}

/** While input is required, each answer has a new link that is valid for one visit. */
function withNewLink(engine: Engine, session: VerificationSession): VerificationSession {
  if (session.status !== 'requires_input' || session.redaction !== null) return session
  const now = recordS(engine)
  const token = stripeId('', 40)
  const valid = session.unused.filter(({ until }) => until > now)
  return save(engine, {
    ...session,
    link: { token, secret: stripeId(`${session.id}_secret_test_`) },
    unused: [...valid.slice(1 - MAX_LINKS), { token, until: now + LINK_LIFETIME_S }],
  })
}

/** Uses up the link. Returns false if the link was already used, has expired or is unknown. */
export function useLink(engine: Engine, session: VerificationSession, token: string): boolean {
  const now = recordS(engine)
  const isValid = session.unused.some((each) => each.token === token && each.until > now)
  if (isValid) {
    const unused = session.unused.filter((each) => each.token !== token)
    save(engine, { ...session, link: null, unused })
  }
  return isValid
}

/** Cancels a session. Only possible in `requires_input`, as at Stripe. */
function cancelSession(engine: Engine, call: Call, session: VerificationSession): VerificationSession {
  if (session.status !== 'requires_input' || session.redaction !== null)
    throw requestRefused(
      null,
      undefined,
      `You cannot cancel this verification session because it has a status of ${session.status}. Only a session with a status of requires_input may be canceled.`,
    )
  return settleSession(engine, call, session, 'canceled')
}

/** Sets the result of the check. `reason`: why input is required again. */
export function settleSession(
  engine: Engine,
  call: Call,
  session: VerificationSession,
  status: Status,
  reason = 'document_unverified_other',
): VerificationSession {
  const isFinal = session.status === 'verified' || session.status === 'canceled'
  if (isFinal || (status === 'processing' && session.status === status))
    throw parameterRefused(`This verification session has a status of ${session.status}.`, 'status')
  const failed = Object.hasOwn(CHECK_FAILURES, reason)
    ? { code: reason, reason: CHECK_FAILURES[reason]! }
    : { code: 'document_unverified_other', reason }
  const settled = save(engine, {
    ...session,
    status,
    last_error: status === 'requires_input' ? failed : null,
    report: status === 'verified' || status === 'requires_input' ? stripeId('vr_1') : session.report,
    link: null,
    unused: [],
  })
  emit(engine, call, `identity.verification_session.${status}`, settled)
  return settled
}

/** Schedules the redaction of a session. A session in `requires_input` is also canceled. */
function redactSession(engine: Engine, call: Call, session: VerificationSession): VerificationSession {
  if (session.status === 'processing' || session.redaction !== null)
    throw requestRefused(
      null,
      undefined,
      `You cannot redact this verification session because ${session.redaction === null ? 'it is being processed' : 'it is redacted already'}.`,
    )
  const is_open = session.status === 'requires_input'
  const redacting = save(engine, {
    ...session,
    status: is_open ? 'canceled' : session.status,
    redaction: 'processing',
    link: null,
    unused: [],
  })
  if (is_open) emit(engine, call, 'identity.verification_session.canceled', redacting)
  scheduleAfter(engine, 'redaction', session.id, SETTLE_DELAY_MS)
  return redacting
}

/** Completes the scheduled redaction of a session. */
export function redactScheduled(engine: Engine, id: string): void {
  const session = findSession(engine, id)
  if (session.redaction !== 'processing') return
  const redacted = save(engine, {
    ...session,
    redaction: 'redacted',
    client_reference_id: null,
    provided_details: null,
    metadata: {},
  })
  emit(engine, DASHBOARD_CALL, 'identity.verification_session.redacted', redacted)
}

/** Schedules the redactions that the journal lacks. */
export function resumeRedactions(engine: Engine): void {
  const due_ms = nowMs(engine) + SETTLE_DELAY_MS
  for (const { id, redaction } of engine.store.sessions.byId.values())
    if (redaction === 'processing') scheduleBy(engine, { kind: 'redaction', id, due_ms })
}

function updateSession(engine: Engine, session: VerificationSession, params: Params): VerificationSession {
  if (session.redaction !== null)
    throw requestRefused(null, undefined, 'You cannot update a verification session that is redacted.')
  const updated = save(engine, { ...session, metadata: metadataOf(params, session.metadata) })
  return withNewLink(engine, updated)
}

function documentOf(params: Params): Record<string, unknown> {
  const document = hashOf(hashOf(params, 'options') ?? {}, 'document') ?? {}
  const flags = ['require_id_number', 'require_live_capture', 'require_matching_selfie']
  const types = stringsOf(document, 'allowed_types')
  return {
    ...(types.length > 0 && { allowed_types: types }),
    ...Object.fromEntries(
      flags.filter((name) => document[name] !== undefined).map((name) => [name, booleanOf(document, name)]),
    ),
  }
}

function hashOf(params: Params, name: string): Params | null {
  const value = params[name]
  if (value === undefined || value === '') return null
  if (!isParams(value)) throw parameterRefused('Invalid hash', name)
  return value
}

function urlOf(params: Params, name: string): string | null {
  const url = stringOf(params, name)
  if (url !== null && !/^https?:/.test(URL.parse(url)?.protocol ?? ''))
    throw parameterRefused('Not a valid URL', name, 'url_invalid')
  return url
}

const RESOURCE = 'identity/verification_sessions'
const object = 'identity.verification_session'

export const IDENTITY_ROUTES: Routes = {
  [`POST ${RESOURCE}`]: {
    object,
    accepts: parameters(
      'client_reference_id expand metadata options provided_details related_customer related_customer_account related_person return_url type verification_flow',
      { type: enumeration(...TYPES) },
    ),
    one: (engine, call, _ids, params) => createSession(engine, call, params),
  },
  [`GET ${RESOURCE}`]: {
    object,
    accepts: parameters(
      `${PAGING} client_reference_id created related_customer related_customer_account status`,
      {
        status: enumeration('canceled', 'processing', 'requires_input', 'verified'),
      },
    ),
    list(engine, params) {
      const page = listOf(engine, params, `/v1/${RESOURCE}`, engine.store.sessions, {
        equal: ['client_reference_id', 'related_customer', 'status'],
      })
      // Only a retrieval returns a link.
      return { ...page, data: page.data.map((each) => ({ ...each, client_secret: null, url: null })) }
    },
  },
  [`GET ${RESOURCE}/:id`]: {
    object,
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => withNewLink(engine, findSession(engine, id)),
  },
  [`POST ${RESOURCE}/:id`]: {
    object,
    accepts: parameters('expand metadata options provided_details type', { type: enumeration(...TYPES) }),
    one: (engine, _call, { id }, params) => updateSession(engine, findSession(engine, id), params),
  },
  [`POST ${RESOURCE}/:id/cancel`]: {
    object,
    accepts: parameters('expand'),
    one: (engine, call, { id }) => cancelSession(engine, call, findSession(engine, id)),
  },
  [`POST ${RESOURCE}/:id/redact`]: {
    object,
    accepts: parameters('expand'),
    one: (engine, call, { id }) => redactSession(engine, call, findSession(engine, id)),
  },
}
