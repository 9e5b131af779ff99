// Authentication by better-auth: passwords, one-time codes, passkeys and sessions. Roles are checked elsewhere.
import { createHash, hkdfSync } from 'node:crypto'
import { passkey } from '@better-auth/passkey'
import { betterAuth } from 'better-auth'
import { APIError } from 'better-auth/api'
import { symmetricDecrypt } from 'better-auth/crypto'
import { twoFactor } from 'better-auth/plugins/two-factor'
import { CamelCasePlugin, Kysely } from 'kysely'
import { PostgresJSDialect } from 'kysely-postgres-js'
import { requireVariable, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { newId } from '#core/ids.ts'
import type { Log } from '#core/log.ts'
import { connectDatabase } from '#core/pool.ts'
import { withoutReserving } from '#core/postgres/reserve.ts'
import { PASSWORD_LENGTH } from '#domain/people/password.ts'

/** Header that passes the client's address to better-auth. */
export const CLIENT_ADDRESS_HEADER = 'x-sluice-address'
export const AUTH_PATH = '/api/auth'
const APP_NAME = 'Sluice'
const CONNECTIONS = 2

export type Sessions = Awaited<ReturnType<typeof openSessions>>

/**
 * Opens better-auth over separate connections, because better-auth reads times as `Date`. The connections close with
 * `ends`.
 */
export async function openSessions(config: Config, log: Log, ends: AsyncDisposableStack) {
  const pool = connectDatabase(requireVariable(config, 'DATABASE_URL'), {
    max: CONNECTIONS,
    application_name: 'sluice-sign-in',
    pool_name: 'sign_in',
    dates: true,
  })
  ends.defer(() => pool.end({ timeout: 5 }))
  const db = openKysely(pool)
  const openAuth = async (keys: string) => {
    const auth = createAuth(config, log, db, keys)
    return { keys, auth, context: await auth.$context }
  }
  let opened = await openAuth(requireVariable(config, 'ENCRYPTION_KEY'))
  /** Better-auth with the present encryption keys. */
  const current = async () => {
    const keys = requireVariable(config, 'ENCRYPTION_KEY')
    if (opened.keys !== keys) opened = await openAuth(keys)
    return opened
  }
  return {
    /** Handles a request under `AUTH_PATH`. */
    handle: async (request: Request): Promise<Response> => await (await current()).auth.handler(request),
    /**
     * Finds the session of these headers; undefined if there is none. `refresh`: extends the session if it was last
     * extended over a day ago. The caller must then send `set_cookies`.
     */
    async find(
      headers: Headers,
      { refresh = false } = {},
    ): Promise<{ session_id: string; set_cookies: string[] } | undefined> {
      const query = { disableRefresh: !refresh }
      const { auth } = await current()
      const { headers: response_headers, response } = await auth.api.getSession({
        headers,
        query,
        returnHeaders: true,
      })
      return response === null
        ? undefined
        : { session_id: response.session.id, set_cookies: response_headers.getSetCookie() }
    },
    hashPassword: (password: string): Promise<string> => opened.context.password.hash(password),
    verifyPassword: (hash: string, password: string): Promise<boolean> =>
      opened.context.password.verify({ hash, password }),
    /** Decrypts a value that better-auth has encrypted, such as the secret of one-time codes. */
    decrypt: async (sealed: string): Promise<string> =>
      await symmetricDecrypt({ key: (await current()).context.secretConfig, data: sealed }),
  }
}

function openKysely(pool: Sql): Kysely<unknown> {
  return new Kysely<unknown>({
    dialect: new PostgresJSDialect({ postgres: () => withoutReserving(pool) }),
    plugins: [new CamelCasePlugin()],
  })
}

function createAuth(config: Config, log: Log, db: Kysely<unknown>, encryption_keys: string) {
  const { DASHBOARD_URL } = config
  return betterAuth({
    appName: APP_NAME,
    basePath: AUTH_PATH,
    ...(DASHBOARD_URL !== undefined && { baseURL: DASHBOARD_URL }),
    secrets: secretsOf(encryption_keys),
    database: { db, type: 'postgres', transaction: false },
    // Users are created by invitations.
    emailAndPassword: {
      enabled: true,
      disableSignUp: true,
      minPasswordLength: PASSWORD_LENGTH.min,
      maxPasswordLength: PASSWORD_LENGTH.max,
    },
    user: { modelName: 'users' },
    account: { modelName: 'userAccounts' },
    session: { modelName: 'userSessions', expiresIn: 7 * 24 * 3600, updateAge: 24 * 3600 },
    verification: { modelName: 'userChallenges' },
    // The dashboard limits sign-in itself, across all processes.
    rateLimit: { enabled: false },
    telemetry: { enabled: false },
    plugins: [
      twoFactor({ issuer: APP_NAME, schema: { twoFactor: { modelName: 'userTwoFactors' } } }),
      passkey({
        rpName: APP_NAME,
        rpID: DASHBOARD_URL === undefined ? 'localhost' : new URL(DASHBOARD_URL).hostname,
        // A passkey replaces both password and code, so it must verify the user itself.
        authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
        registration: {
          afterVerification: ({ verification }) =>
            assertUserVerified(verification.registrationInfo?.userVerified),
        },
        authentication: {
          afterVerification: ({ verification }) =>
            assertUserVerified(verification.authenticationInfo.userVerified),
        },
        schema: { passkey: { modelName: 'userPasskeys', fields: { credentialID: 'credentialId' } } },
      }),
    ],
    advanced: {
      cookiePrefix: 'sluice',
      useSecureCookies: DASHBOARD_URL?.startsWith('https:') === true,
      defaultCookieAttributes: { sameSite: 'strict', httpOnly: true },
      database: { generateId: () => newId() },
      ipAddress: { ipAddressHeaders: [CLIENT_ADDRESS_HEADER] },
      // The guard has already checked the request.
      disableCSRFCheck: true,
    },
    logger: {
      level: 'error',
      log: (level, message) => log[level === 'error' ? 'warn' : 'debug']({ from: 'sign-in' }, message),
    },
  })
}

function assertUserVerified(user_verified: boolean | undefined): void {
  if (user_verified !== true) throw new APIError('BAD_REQUEST', { code: 'PASSKEY_UNVERIFIED' })
}

/** One secret for each encryption key: values encrypted with an old key stay readable while that key is configured. */
function secretsOf(keys: string): { version: number; value: string }[] {
  return keys.split(',').map((key) => ({
    version: createHash('sha256').update(key.trim()).digest().readUInt32BE() >>> 1,
    value: Buffer.from(hkdfSync('sha256', key.trim(), '', 'sluice dashboard sign-in', 32)).toString('base64'),
  }))
}
