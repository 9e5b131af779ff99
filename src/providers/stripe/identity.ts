// The identity provider on Stripe Identity.
import type { Stripe } from 'stripe'
import type { Outcome } from '#core/outcome.ts'
import type { IdentityProvider, IdentitySession, SessionCall } from '../identity.ts'
import { assertAnswer, isId } from './answers.ts'
import { nullIfMissing } from './classify.ts'
import { idempotencyOptions, openStripe, type StripeOptions } from './client.ts'
import { assertClockInSync, pagesOf, type Pages } from './lists.ts'
import { objectLists } from './objects.ts'
import { SESSION_STATUS } from './statuses.ts'

type Session = Stripe.Identity.VerificationSession

/**
 * The identity provider. The parameters of a call that changes something depend only on its request: under one
 * idempotency key Stripe accepts only identical parameters.
 */
export function stripeIdentity(options: StripeOptions): IdentityProvider & { close(): Promise<void> } {
  const client = openStripe(options)
  const { stripe, deadline_ms, call, findAccount, close } = client
  const sessions = stripe.identity.verificationSessions

  return {
    name: 'stripe',
    get credentials() {
      return client.credentials
    },
    findAccount,
    lists: objectLists(client, {
      verifications: (range) => stripe.identity.verificationSessions.list(range),
    }),
    url_lifetime_ms: 48 * 3_600_000,

    openSession: async (request, key) =>
      refusal(
        await call('verify', async () =>
          toSession(await sessions.create(paramsOf(request), idempotencyOptions(key))),
        ),
      ),

    cancelSession: (reference, key) =>
      call('cancel_verification', async () =>
        toSession(await sessions.cancel(reference, {}, idempotencyOptions(key)), reference),
      ),

    findSession: (reference) =>
      call('find_verification', async () => {
        const found = await sessions.retrieve(reference).catch(nullIfMissing)
        return found && toSession(found, reference)
      }),

    searchSession: ({ kyc_id, from_s, now_s, except = [] }) =>
      call('search_verification', async () => {
        const filter = { client_reference_id: kyc_id, created: { gte: from_s } }
        const found: IdentitySession[] = []
        let skew_s = 0
        const list: Pages<Session> = (page, within) => sessions.list({ ...filter, ...page }, within)
        for await (const { data, clock_skew_s } of pagesOf(deadline_ms, list, now_s)) {
          const matching = data.filter(
            ({ id, metadata }) => metadata?.['sluice_kyc_id'] === kyc_id && !except.includes(id),
          )
          found.push(...matching.map((each) => toSession(each)))
          skew_s = clock_skew_s
        }
        if (found.length === 0) assertClockInSync(skew_s)
        // A canceled session may be a duplicate, so another session is preferred.
        return found.find(({ status }) => status !== 'canceled') ?? found[0] ?? null
      }),

    close,
  }
}

function paramsOf({ return_url, metadata }: SessionCall): Stripe.Identity.VerificationSessionCreateParams {
  return {
    type: 'document',
    client_reference_id: metadata['sluice_kyc_id']!,
    metadata,
    ...(return_url !== null && { return_url }),
  }
}

/** Reports a refusal as `kyc_refused` instead of a payment error. */
function refusal<T>(outcome: Outcome<T>): Outcome<T> {
  // The key was used with other parameters: Stripe has not refused the request itself.
  if (outcome.kind !== 'declined' || outcome.failure.code === 'processor_error') return outcome
  return { ...outcome, failure: { ...outcome.failure, code: 'kyc_refused' } }
}

function toSession(session: Session, reference?: string): IdentitySession {
  const status = SESSION_STATUS.get(session.status)
  assertAnswer(
    session.object === 'identity.verification_session' && isId(session.id, 'vs_'),
    'not a verification session',
  )
  assertAnswer(reference === undefined || session.id === reference, 'not the requested verification session')
  assertAnswer(status !== undefined, 'a verification session with an unknown status')
  const error = session.last_error
  return {
    reference: session.id,
    status,
    url: status === 'requires_input' && typeof session.url === 'string' ? session.url : null,
    failure:
      status === 'requires_input' && error != null
        ? {
            code: error.code ?? 'processor_error',
            message: error.reason ?? 'The person could not be verified.',
          }
        : null,
    redacted: session.redaction != null,
    created_s: session.created,
    metadata: session.metadata ?? {},
  }
}
