// The endpoints of the API: which parameters they know and which operation they are.
import type { Call } from '../shared/call.ts'
import type { Emulator } from './emulator.ts'
import { missing } from './errors.ts'
import { findEvent, listEvents, renderEvent } from './events.ts'
import type { Params } from './parse.ts'
import {
  cancelIntent,
  captureIntent,
  confirmIntent,
  createIntent,
  findIntent,
  updateIntent,
} from './payment-intents.ts'
import { cancelRefund, createRefund, findRefund, listRefunds, updateRefund } from './refunds.ts'
import type { Page } from './lists.ts'
import type { Rendered } from './render.ts'
import { listCharges, listIntents, searchIntents, type SearchResult } from './search.ts'
import type { Version } from './store.ts'

export type Route = {
  known: Set<string>
  /** What it answers with, or a list of; null: events, where nothing can be expanded. */
  object: Version['object'] | null
} & (
  | { one: (emulator: Emulator, call: Call, id: string, params: Params) => Version }
  | { many: (emulator: Emulator, params: Params) => Page | SearchResult }
  | { event: (emulator: Emulator, id: string) => Rendered }
)

const PAGING = 'limit starting_after ending_before created expand'
const CREATE =
  'amount currency allowed_payment_method_types amount_details application_fee_amount automatic_payment_methods capture_method confirm confirmation_method confirmation_token customer customer_account ' +
  'description error_on_requires_action excluded_payment_method_types expand hooks mandate mandate_data metadata off_session on_behalf_of payment_details payment_method payment_method_configuration ' +
  'payment_method_data payment_method_options payment_method_types radar_options receipt_email return_url setup_future_usage shipping statement_descriptor statement_descriptor_suffix transfer_data transfer_group use_stripe_sdk'
const UPDATE =
  'amount amount_details application_fee_amount capture_method currency customer description expand hooks metadata payment_details payment_method payment_method_configuration payment_method_data ' +
  'payment_method_options payment_method_types receipt_email setup_future_usage shipping statement_descriptor statement_descriptor_suffix transfer_data transfer_group'
const CONFIRM =
  'amount_details amount_to_confirm capture_method client_secret confirmation_token error_on_requires_action expand hooks mandate mandate_data off_session payment_details payment_method payment_method_data ' +
  'payment_method_options payment_method_types radar_options receipt_email return_url setup_future_usage shipping use_stripe_sdk'
const CAPTURE =
  'amount_details amount_to_capture application_fee_amount expand final_capture hooks metadata payment_details statement_descriptor statement_descriptor_suffix transfer_data'
const REFUND =
  'amount charge currency customer expand instructions_email metadata origin payment_intent reason refund_application_fee reverse_transfer'

const ROUTES = new Map<string, Route>([
  [
    'POST payment_intents',
    {
      object: 'payment_intent',
      known: words(CREATE),
      one: (emulator, call, _id, params) => createIntent(emulator, call, params),
    },
  ],
  [
    'GET payment_intents',
    { object: 'payment_intent', known: words(`${PAGING} customer customer_account`), many: listIntents },
  ],
  [
    'GET payment_intents/search',
    { object: 'payment_intent', known: words('query limit page expand'), many: searchIntents },
  ],
  [
    'GET payment_intents/:id',
    {
      object: 'payment_intent',
      known: words('expand client_secret'),
      one: (emulator, _call, id) => findIntent(emulator, id),
    },
  ],
  [
    'POST payment_intents/:id',
    {
      object: 'payment_intent',
      known: words(UPDATE),
      one: (emulator, _call, id, params) => updateIntent(emulator, findIntent(emulator, id), params),
    },
  ],
  [
    'POST payment_intents/:id/confirm',
    {
      object: 'payment_intent',
      known: words(CONFIRM),
      one: (emulator, call, id, params) => confirmIntent(emulator, call, findIntent(emulator, id), params),
    },
  ],
  [
    'POST payment_intents/:id/capture',
    {
      object: 'payment_intent',
      known: words(CAPTURE),
      one: (emulator, call, id, params) => captureIntent(emulator, call, findIntent(emulator, id), params),
    },
  ],
  [
    'POST payment_intents/:id/cancel',
    {
      object: 'payment_intent',
      known: words('cancellation_reason expand'),
      one: (emulator, call, id, params) => cancelIntent(emulator, call, findIntent(emulator, id), params),
    },
  ],
  [
    'GET charges',
    { object: 'charge', known: words(`${PAGING} payment_intent customer transfer_group`), many: listCharges },
  ],
  ['GET charges/:id', { object: 'charge', known: words('expand'), one: findCharge }],
  [
    'POST refunds',
    {
      object: 'refund',
      known: words(REFUND),
      one: (emulator, call, _id, params) => createRefund(emulator, call, params),
    },
  ],
  ['GET refunds', { object: 'refund', known: words(`${PAGING} payment_intent charge`), many: listRefunds }],
  [
    'GET refunds/:id',
    { object: 'refund', known: words('expand'), one: (emulator, _call, id) => findRefund(emulator, id) },
  ],
  [
    'POST refunds/:id',
    {
      object: 'refund',
      known: words('metadata expand'),
      one: (emulator, call, id, params) => updateRefund(emulator, call, findRefund(emulator, id), params),
    },
  ],
  [
    'POST refunds/:id/cancel',
    {
      object: 'refund',
      known: words('expand'),
      one: (emulator, call, id) => cancelRefund(emulator, call, findRefund(emulator, id)),
    },
  ],
  ['GET events', { object: null, known: words(`${PAGING} type types delivery_success`), many: listEvents }],
  [
    'GET events/:id',
    {
      object: null,
      known: words('expand'),
      event: (emulator, id) => renderEvent(emulator, findEvent(emulator, id)),
    },
  ],
])

/** `POST`, `/v1/refunds/re_1/cancel` -> the route and the id. */
export function findRoute(method: string, path: string): { route: Route; id: string } | null {
  if (!path.startsWith('/v1/')) return null
  const [noun, id, action, ...more] = path.slice('/v1/'.length).split('/')
  if (more.length > 0) return null
  let name = `${method} ${noun}`
  if (id !== undefined) name += id === 'search' ? '/search' : '/:id'
  if (action !== undefined) name += `/${action}`
  const route = ROUTES.get(name)
  return route ? { route, id: id ?? '' } : null
}

function findCharge(emulator: Emulator, _call: Call, id: string): Version {
  const charge = emulator.store.charges.byId.get(id)
  if (!charge) throw missing(404, 'charge', id, 'id')
  return charge
}

function words(text: string): Set<string> {
  return new Set(text.split(' '))
}
