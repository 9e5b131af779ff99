// Stripe's official SDK over our guarded HTTP client: every call is classified and observed.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Stripe } from 'stripe'
import type { Outcome } from '#core/outcome.ts'
import { assertAnswer, isId } from './answers.ts'
import { causeOf, classify } from './classify.ts'
import { guardClient } from './guard.ts'
import type { FinishedCall } from '../http.ts'
import { NotStarted } from '../permit.ts'

export type StripeOptions = {
  secret_key: string
  /** Another server than Stripe's own, e.g. `http://127.0.0.1:12111`. */
  api_base?: string | null
  /** For a whole call, pages included; 15,000 unless told. */
  deadline_ms?: number
  onCall?: (call: FinishedCall) => void
}

export type StripeClient = {
  stripe: Stripe
  /** A fingerprint of the secret key and the server that it is for. */
  credentials: string
  /** For a whole call, pages included. */
  deadline_ms: number
  /** Asks, and classifies what comes of it. */
  call: <T>(operation: string, ask: () => Promise<T>) => Promise<Outcome<T>>
  /**
   * The account that the secret key is of, and its mode: an account has its own objects in each. Not a call of a job: a
   * restricted key may be refused it, which is no outage.
   */
  findAccount: () => Promise<Outcome<string>>
  close: () => Promise<void>
}

/** The SDK for one secret key. */
export function openStripe(options: StripeOptions): StripeClient {
  const deadline_ms = options.deadline_ms ?? 15_000
  const api_base = options.api_base ?? 'https://api.stripe.com'
  const client = guardClient(api_base)
  const stripe = new Stripe(options.secret_key, {
    httpClient: client,
    timeout: deadline_ms,
    maxNetworkRetries: 0,
    telemetry: false,
  })

  async function call<T>(operation: string, ask: () => Promise<T>): Promise<Outcome<T>> {
    const started = performance.now()
    const outcome = await ask().then((value): Outcome<T> => ({ kind: 'done', value }), classifyStarted)
    options.onCall?.({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }

  async function findAccount(): Promise<Outcome<string>> {
    const mode = modeOf(options.secret_key)
    if (mode === undefined)
      return {
        kind: 'misconfigured',
        reason: 'the secret key does not say whether it is of live or of test mode',
      }
    const ask = async () => {
      const account = await stripe.accounts.retrieveCurrent()
      assertAnswer(account.object === 'account' && isId(account.id, 'acct_'), 'not an account')
      return `${account.id} ${mode}`
    }
    return await ask().then((value): Outcome<string> => ({ kind: 'done', value }), classifyStarted)
  }

  const credentials = fingerprintOf(new URL(api_base).href, options.secret_key)
  return { stripe, credentials, deadline_ms, call, findAccount, close: () => client.close() }
}

function modeOf(secret_key: string): string | undefined {
  return /^[a-z]+_(?:org_)?(live|test)_/.exec(secret_key)?.[1]
}

/** Too short to be of use to anyone who has a part of the key, and long enough to tell two keys apart. */
function fingerprintOf(api_base: string, secret_key: string): string {
  return createHash('sha256').update(`${api_base}\u0000${secret_key}`).digest('hex').slice(0, 16)
}

/** What did not start has no outcome: the job is given back as it is. */
function classifyStarted(error: unknown): Exclude<Outcome<never>, { kind: 'done' }> {
  const cause = causeOf(error)
  if (cause instanceof NotStarted) throw cause
  return classify(error)
}

/** The SDK makes up a random key where it is given none, and an empty one counts as none. */
export function idempotencyOptions(key: string): Stripe.RequestOptions {
  assert(key.length > 0 && key.length <= 255, 'a writing call carries its own idempotency key')
  return { idempotencyKey: key }
}
