// Finds the session of a request, and its user.
import type { ApiContext } from '#api/context.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import type { Mode } from '#domain/modes.ts'
import { findSignedIn } from '#domain/people/find.ts'
import { headersOf } from './auth-relay.ts'
import type { DashboardContext, ActiveSession } from './context.ts'
import { requestedMode } from './mode.ts'
import { createSessionGate } from './sessions-gate.ts'
import type { Sessions } from './sessions.ts'
import { isAuditedAct } from './v1.ts'

/** Limit of a user's acts over all routes: each act adds an audit entry, and entries are never deleted. */
const ACT_LIMIT = { rps: 1, burst: 120, max_buckets: 20_000 }

type SessionLookup = Pick<DashboardContext, 'findSession' | 'findIssuedSession' | 'requireSession'>

export function createSessionLookup({ sql }: ApiContext, sessions: Sessions): SessionLookup {
  const limitActs = createLimit(ACT_LIMIT)
  const gateLookup = createSessionGate()

  async function find(
    headers: Headers,
    mode: Mode,
    options?: { refresh: boolean },
  ): Promise<ActiveSession | undefined> {
    const found = await sessions.find(headers, options)
    if (found === undefined) return undefined
    const signed_in = await findSignedIn(sql, found.session_id, mode)
    return signed_in && { signed_in, set_cookies: found.set_cookies }
  }
  const findSession: DashboardContext['findSession'] = async (request, options) => {
    const mode = requestedMode(request)
    return await gateLookup(request, () => find(headersOf(request), mode, options))
  }
  const findIssuedSession: DashboardContext['findIssuedSession'] = async (cookies) =>
    find(new Headers({ cookie: cookies.map((cookie) => cookie.split(';')[0]!).join('; ') }), 'live')
  const requireSession: DashboardContext['requireSession'] = async (request, options) => {
    const found = await findSession(request, options)
    if (found === undefined) throw new AppError('unauthorized', { message: 'Sign in first.' })
    request.set_cookies = found.set_cookies
    request.signed_in = found.signed_in
    if (isAuditedAct(request)) limitActs(found.signed_in.user_id)
    return found.signed_in
  }
  return { findSession, findIssuedSession, requireSession }
}
