// Finds the session of a request, and who is signed in by it.
import type { ApiContext } from '#api/context.ts'
import { createLimit } from '#api/limit.ts'
import { AppError } from '#core/errors.ts'
import { findSignedIn } from '#domain/people/find.ts'
import { headersOf } from './auth-relay.ts'
import type { DashboardContext, FoundSession } from './context.ts'
import { createSessionsGate } from './sessions-gate.ts'
import type { Sessions } from './sessions.ts'
import { isAct } from './v1.ts'

/** Acts of a user on all routes: each one adds an audit entry, and entries are never deleted. */
const ACTS = { rps: 1, burst: 120, most: 20_000 }

type Finders = Pick<DashboardContext, 'findSession' | 'findGivenSession' | 'signedIn'>

export function createSessionFinders({ sql }: ApiContext, sessions: Sessions): Finders {
  const limitActs = createLimit(ACTS)
  const passCookie = createSessionsGate()

  async function find(headers: Headers, options?: { prolong: boolean }): Promise<FoundSession | undefined> {
    const found = await sessions.find(headers, options)
    if (found === undefined) return undefined
    const signed_in = await findSignedIn(sql, found.session_id)
    return signed_in && { signed_in, set_cookies: found.set_cookies }
  }
  const findSession: DashboardContext['findSession'] = async (request, options) =>
    passCookie(request, () => find(headersOf(request), options))
  const findGivenSession: DashboardContext['findGivenSession'] = async (cookies) =>
    find(new Headers({ cookie: cookies.map((cookie) => cookie.split(';')[0]!).join('; ') }))
  const signedIn: DashboardContext['signedIn'] = async (request, options) => {
    const found = await findSession(request, options)
    if (found === undefined) throw new AppError('unauthorized', { message: 'Sign in first.' })
    request.set_cookies = found.set_cookies
    request.signed_in = found.signed_in
    if (isAct(request)) limitActs(found.signed_in.user_id)
    return found.signed_in
  }
  return { findSession, findGivenSession, signedIn }
}
