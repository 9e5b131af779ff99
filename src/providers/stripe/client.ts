// Stripe's official SDK over the guarded HTTP client: every call is classified and reported to `onCall`.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Stripe } from 'stripe'
import type { ProviderOperation } from '#core/config/providers.ts'
import { deriveFrom } from '#core/derived.ts'
import type { Outcome } from '#core/outcome.ts'
import { assertAnswer, isId } from './answers.ts'
import { causeOf, classify } from './classify.ts'
import { guardClient } from './guard.ts'
import { openHttp, type FinishedCall, type HttpClient } from '../http.ts'
import { NotStarted } from '../permit.ts'

export type StripeOptions = {
  /** Read for each request, so that it may be replaced by another key of the account. */
  readonly secret_key: string
  /** Default: Stripe's API. Example: `http://127.0.0.1:12111`. */
  api_base?: string | null
  /** The transport instead of a connection to the API: that of a sandbox. */
  http?: HttpClient
  /** The limit of a complete call with all its pages, in milliseconds. Default: 15,000. */
  deadline_ms?: number
  onCall?: (call: FinishedCall) => void
}

export type StripeClient = {
  stripe: Stripe
  /** A fingerprint of the present secret key and of the API's address. */
  readonly credentials: string
  /** The limit of a complete call with all its pages. */
  deadline_ms: number
  /** Runs `request` and classifies its result. */
  call: <T>(operation: ProviderOperation, request: () => Promise<T>) => Promise<Outcome<T>>
  /**
   * The account of the secret key, with its mode: each mode has its own objects. Not reported to `onCall`: a restricted
   * key may lack the permission, which is not an outage.
   */
  findAccount: () => Promise<Outcome<string>>
  close: () => Promise<void>
}

/** Opens the SDK for one secret key. */
export function openStripe(options: StripeOptions): StripeClient {
  const deadline_ms = options.deadline_ms ?? 15_000
  const api_base = options.api_base ?? 'https://api.stripe.com'
  const client = guardClient(options.http ?? openHttp(api_base))
  // The SDK has no key of its own: it calls this function to authenticate each request.
  const stripe = new Stripe('', {
    authenticator: async ({ headers }) => {
      headers['Authorization'] = `Bearer ${options.secret_key}`
    },
    httpClient: client,
    timeout: deadline_ms,
    maxNetworkRetries: 0,
    telemetry: false,
  })

  async function call<T>(operation: ProviderOperation, request: () => Promise<T>): Promise<Outcome<T>> {
    const started = performance.now()
    const outcome = await startWithoutStack(request).then(
      (value): Outcome<T> => ({ kind: 'done', value }),
      classifyStarted,
    )
    options.onCall?.({ operation, outcome: outcome.kind, duration_ms: performance.now() - started })
    return outcome
  }

  async function findAccount(): Promise<Outcome<string>> {
    const mode = modeOf(options.secret_key)
    if (mode === undefined)
      return {
        kind: 'misconfigured',
        reason: 'the secret key has neither a live nor a test prefix',
      }
    const request = async () => {
      const account = await stripe.accounts.retrieveCurrent()
      assertAnswer(account.object === 'account' && isId(account.id, 'acct_'), 'not an account')
      return `${account.id} ${mode}`
    }
    return await request().then((value): Outcome<string> => ({ kind: 'done', value }), classifyStarted)
  }

  const address = new URL(api_base).href
  const currentFingerprint = deriveFrom(
    () => options.secret_key,
    (secret_key) => fingerprintOf(address, secret_key),
  )
  return {
    stripe,
    get credentials() {
      return currentFingerprint()
    },
    deadline_ms,
    call,
    findAccount,
    close: () => client.close(),
  }
}

/**
 * Starts a request while errors record no stack. For each request, the SDK reads a stack that only its errors would
 * show, and of an error only the kind is used. That took more than one percent of a worker's processor time. The limit
 * belongs to the process; it is restored before other code runs. An error of ours that is thrown at once has no stack.
 */
function startWithoutStack<T>(request: () => Promise<T>): Promise<T> {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = 0
  try {
    return request()
  } finally {
    Error.stackTraceLimit = limit
  }
}

function modeOf(secret_key: string): string | undefined {
  return /^[a-z]+_(?:org_)?(live|test)_/.exec(secret_key)?.[1]
}

/** A fingerprint of the credentials: too short to help in guessing a key, and long enough to distinguish keys. */
function fingerprintOf(api_base: string, secret_key: string): string {
  return createHash('sha256').update(`${api_base}\u0000${secret_key}`).digest('hex').slice(0, 16)
}

/**
 * Classifies an error. Rethrows NotStarted: a call that did not start has no outcome, and its job is released
 * unchanged.
 */
function classifyStarted(error: unknown): Exclude<Outcome<never>, { kind: 'done' }> {
  const cause = causeOf(error)
  if (cause instanceof NotStarted) throw cause
  return classify(error)
}

/**
 * The options for an idempotency key. Asserts that it is not empty: without a key the SDK would generate a random one.
 */
export function idempotencyOptions(key: string): Stripe.RequestOptions {
  assert(
    key.length > 0 && key.length <= 255,
    'the idempotency key of a writing call is empty or longer than 255 characters',
  )
  return { idempotencyKey: key }
}
