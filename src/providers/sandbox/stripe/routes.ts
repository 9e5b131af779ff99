// The routes of the API.
import { ACCOUNT_ROUTES } from './account.ts'
import { DISPUTE_ROUTES } from './disputes.ts'
import { findEvent, listEvents, renderEvent } from './events.ts'
import { IDENTITY_ROUTES } from './identity.ts'
import { requireObject, listOf } from './lists.ts'
import {
  cancelIntent,
  captureIntent,
  confirmIntent,
  createIntent,
  findIntent,
  updateIntent,
} from './payment-intents.ts'
import { PAYOUT_ROUTES } from './payouts.ts'
import { cancelRefund, createRefund, findRefund, listRefunds, updateRefund } from './refunds.ts'
import { PAGING, type PathIds, type Route, type Routes } from './route.ts'
import { text, parameters } from './rules.ts'
import { searchIntents } from './search.ts'
import { TOPUP_ROUTES } from './topups.ts'
import { TRANSFER_ROUTES } from './transfers.ts'

const CREATE =
  'amount currency allowed_payment_method_types amount_details application_fee_amount automatic_payment_methods capture_method confirm confirmation_method confirmation_token customer customer_account ' +
  'description error_on_requires_action excluded_payment_method_types expand hooks mandate mandate_data metadata off_session on_behalf_of payment_details payment_method payment_method_configuration ' +
  'payment_method_data payment_method_options radar_options receipt_email return_url setup_future_usage shipping statement_descriptor statement_descriptor_suffix transfer_data transfer_group use_stripe_sdk'
const UPDATE =
  'allowed_payment_method_types amount amount_details application_fee_amount capture_method currency customer customer_account description excluded_payment_method_types expand hooks metadata payment_details payment_method payment_method_configuration ' +
  'payment_method_data payment_method_options receipt_email setup_future_usage shipping statement_descriptor statement_descriptor_suffix transfer_data transfer_group'
const CONFIRM =
  'allowed_payment_method_types amount_details amount_to_confirm capture_method confirmation_token error_on_requires_action excluded_payment_method_types expand hooks mandate mandate_data off_session payment_details payment_method ' +
  'payment_method_data payment_method_options radar_options receipt_email return_url setup_future_usage shipping use_stripe_sdk'
const CAPTURE =
  'amount_details amount_to_capture application_fee_amount expand final_capture hooks metadata payment_details statement_descriptor statement_descriptor_suffix transfer_data'
const REFUND =
  'amount charge currency customer expand instructions_email metadata origin payment_intent reason refund_application_fee reverse_transfer'

/** The rule for the `description` of a payment intent, which has a lower limit than other descriptions (OpenAPI). */
const DESCRIPTION = { description: text(1000) }

const PAYMENT_ROUTES: Routes = {
  'POST payment_intents': {
    object: 'payment_intent',
    accepts: parameters(CREATE, DESCRIPTION),
    one: (engine, call, _ids, params) => createIntent(engine, call, params),
  },
  'GET payment_intents': {
    object: 'payment_intent',
    accepts: parameters(`${PAGING} created customer customer_account`),
    list: (engine, params) =>
      listOf(engine, params, '/v1/payment_intents', engine.store.intents, { equal: ['customer'] }),
  },
  'GET payment_intents/search': {
    object: 'payment_intent',
    accepts: parameters('query limit page expand'),
    list: searchIntents,
  },
  'GET payment_intents/:id': {
    object: 'payment_intent',
    accepts: parameters('expand client_secret'),
    one: (engine, _call, { id }) => findIntent(engine, id),
  },
  'POST payment_intents/:id': {
    object: 'payment_intent',
    accepts: parameters(UPDATE, DESCRIPTION),
    one: (engine, _call, { id }, params) => updateIntent(engine, findIntent(engine, id), params),
  },
  'POST payment_intents/:id/confirm': {
    object: 'payment_intent',
    accepts: parameters(CONFIRM),
    one: (engine, call, { id }, params) => confirmIntent(engine, call, findIntent(engine, id), params),
  },
  'POST payment_intents/:id/capture': {
    object: 'payment_intent',
    accepts: parameters(CAPTURE),
    one: (engine, call, { id }, params) => captureIntent(engine, call, findIntent(engine, id), params),
  },
  'POST payment_intents/:id/cancel': {
    object: 'payment_intent',
    accepts: parameters('cancellation_reason expand'),
    one: (engine, call, { id }, params) => cancelIntent(engine, call, findIntent(engine, id), params),
  },
  'GET charges': {
    object: 'charge',
    accepts: parameters(`${PAGING} created payment_intent customer transfer_group`),
    list: (engine, params) =>
      listOf(engine, params, '/v1/charges', engine.store.charges, {
        equal: ['payment_intent', 'customer'],
      }),
  },
  'GET charges/:id': {
    object: 'charge',
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => requireObject(engine.store.charges, 'charge', id),
  },
  'POST refunds': {
    object: 'refund',
    accepts: parameters(REFUND),
    one: (engine, call, _ids, params) => createRefund(engine, call, params),
  },
  'GET refunds': {
    object: 'refund',
    accepts: parameters(`${PAGING} created payment_intent charge`),
    list: listRefunds,
  },
  'GET refunds/:id': {
    object: 'refund',
    accepts: parameters('expand'),
    one: (engine, _call, { id }) => findRefund(engine, id),
  },
  'POST refunds/:id': {
    object: 'refund',
    accepts: parameters('metadata expand'),
    one: (engine, call, { id }, params) => updateRefund(engine, call, findRefund(engine, id), params),
  },
  'POST refunds/:id/cancel': {
    object: 'refund',
    accepts: parameters('expand'),
    one: (engine, call, { id }) => cancelRefund(engine, call, findRefund(engine, id)),
  },
  'GET events': {
    object: null,
    accepts: parameters(`${PAGING} created type types delivery_success`),
    list: listEvents,
  },
  'GET events/:id': {
    object: null,
    accepts: parameters('expand'),
    rendered: (engine, { id }) => renderEvent(engine, findEvent(engine, id)),
  },
}

const ROUTES = new Map(
  Object.entries({
    ...PAYMENT_ROUTES,
    ...DISPUTE_ROUTES,
    ...PAYOUT_ROUTES,
    ...TRANSFER_ROUTES,
    ...TOPUP_ROUTES,
    ...IDENTITY_ROUTES,
    ...ACCOUNT_ROUTES,
  }),
)

/** First path segments of resources with two segments. */
const NAMESPACES = new Set(['identity'])

export type FoundRoute = { route: Route; ids: PathIds }

/** Finds the route and the ids of a request, such as `POST /v1/refunds/re_1/cancel`. */
export function findRoute(method: string, path: string): FoundRoute | null {
  if (!path.startsWith('/v1/')) return null
  let [resource, id, action, part, ...more] = path.slice('/v1/'.length).split('/')
  if (NAMESPACES.has(resource!))
    [resource, id, action, part, more] = [`${resource}/${id}`, action, part, more[0], more.slice(1)]
  if (more.length > 0) return null
  let name = `${method} ${resource}`
  if (id !== undefined) name += id === 'search' ? '/search' : '/:id'
  if (action !== undefined) name += `/${action}`
  if (part !== undefined) name += '/:part'
  const route = ROUTES.get(name)
  return route ? { route, ids: { id: id ?? '', part: part ?? '' } } : null
}
