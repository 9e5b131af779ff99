// The controls of identity: the hosted page of the person, and the result of the check.
import { BROWSER_CALL, DASHBOARD_CALL } from '#providers/sandbox/stripe/call.ts'
import { findSession, SESSION_STATUSES, settleSession, useLink } from '#providers/sandbox/stripe/identity.ts'
import { render } from '#providers/sandbox/stripe/render.ts'
import { textOf } from '../shared/controls.ts'
import { sendPage } from '../shared/html.ts'
import { send } from '../shared/http.ts'
import { statusOf, type StripeControl } from './control-parts.ts'
import { verificationPage, verificationText } from './page-identity.ts'

export const IDENTITY_CONTROLS: Record<string, StripeControl> = {
  'GET identity/:id/start': ({ engine }, id, _body, query, { response }) => {
    const session = findSession(engine, id)
    if (useLink(engine, session, textOf(query, 'link') ?? ''))
      sendPage(response, 200, verificationPage(session), session.return_url)
    else sendPage(response, 410, verificationText('This link is used or expired.'))
  },
  'POST identity/:id/submit': ({ engine }, id, body, _query, { response }) => {
    const status = statusOf(body, SESSION_STATUSES)
    const session = findSession(engine, id)
    const { return_url } = settleSession(engine, BROWSER_CALL, session, status, textOf(body, 'reason'))
    if (return_url === null) sendPage(response, 200, verificationText('Thank you. You can close this page.'))
    else send(response, 303, { location: return_url }, '')
  },
  'POST identity/:id/settle': ({ engine }, id, body) => {
    const status = statusOf(body, SESSION_STATUSES)
    const session = findSession(engine, id)
    return render(
      settleSession(engine, DASHBOARD_CALL, session, status, textOf(body, 'reason')),
      engine.pages_url,
    )
  },
}
