// `expand`: replaces ids by objects.
import { parameterRefused } from './errors.ts'
import { render, renderMethod } from './render.ts'
import type { Rendered } from './rendered.ts'
import { findObject, type Store } from './store.ts'
import type { Version } from './versions.ts'

const EXPANDABLE: Record<Version['object'], string[]> = {
  payment_intent: ['latest_charge', 'payment_method', 'customer'],
  charge: ['payment_intent', 'customer', 'balance_transaction'],
  refund: ['charge', 'payment_intent', 'balance_transaction'],
  dispute: ['charge', 'payment_intent'],
  payout: ['balance_transaction', 'destination', 'failure_balance_transaction'],
  transfer: ['balance_transaction', 'destination', 'destination_payment', 'source_transaction'],
  transfer_reversal: ['balance_transaction', 'transfer'],
  topup: ['balance_transaction', 'payment_method'],
  'identity.verification_session': ['last_verification_report', 'verified_outputs'],
}

/** The versions of the objects in an answer: rendering a snapshot again always gives the same bytes. */
export type ResponseSnapshot = { object: Version; related: Version[]; expand: string[] }

/** Captures the current versions of all objects that `expand` needs. */
export function snapshotOf(store: Store, object: Version, expand: string[]): ResponseSnapshot {
  if (expand.length === 0) return { object, related: [], expand }
  const related = relatedIdsOf(object)
    .map((id) => (id === null ? undefined : findObject(store, id)))
    .filter((each) => each !== undefined)
  return { object, related, expand }
}

/** The ids of objects that `expand` may include. */
function relatedIdsOf(object: Version): (string | null)[] {
  switch (object.object) {
    case 'payment_intent':
      return [object.id, object.latest_charge]
    case 'charge':
      return [object.payment_intent, object.id]
    case 'dispute':
    case 'refund':
      return [object.payment_intent, object.charge]
    case 'transfer':
      return [object.source_transaction]
    case 'transfer_reversal':
      return [object.transfer]
    default:
      return []
  }
}

/** Renders a snapshot with its expanded objects. */
export function renderSnapshot(snapshot: ResponseSnapshot, pages_url: string): Rendered {
  const rendered = render(snapshot.object, pages_url)
  const find = (id: string) => snapshot.related.find((each) => each.id === id)
  for (const path of snapshot.expand) expandPath(rendered, snapshot.object, path.split('.'), find, pages_url)
  return rendered
}

/** Expands a list or a search result, whose paths begin with `data.`. */
export function expandList(data: Rendered[], expand: string[], store: Store, pages_url: string): void {
  const find = (id: string) => findObject(store, id)
  for (const path of expand) {
    for (const each of data) {
      const version = find(String(each['id']))
      if (version) expandPath(each, version, path.split('.').slice(1), find, pages_url)
    }
  }
}

/** Depth limit of a path (docs: "Expanding Responses"). */
const MAX_DEPTH = 4

/** Throws a 400 for a path that cannot be expanded. */
export function checkExpand(object: Version['object'], expand: string[], inList: boolean): void {
  for (const path of expand) {
    const [first, ...rest] = path.split('.')
    if (rest.length >= MAX_DEPTH)
      throw parameterRefused(
        `You cannot expand more than ${MAX_DEPTH} levels of a property (${path}).`,
        'expand',
      )
    const field = inList ? rest[0] : first
    if ((inList && first !== 'data') || field === undefined || !EXPANDABLE[object].includes(field)) {
      throw parameterRefused(`This property cannot be expanded (${path}).`, 'expand')
    }
  }
}

function expandPath(
  rendered: Rendered,
  version: Version,
  path: string[],
  find: (id: string) => Version | undefined,
  pages_url: string,
): void {
  const [field, ...rest] = path
  if (field === undefined || !EXPANDABLE[version.object].includes(field)) return
  if (field === 'payment_method') {
    if (version.object === 'payment_intent' && version.method) {
      rendered[field] = renderMethod(version.method, version.created, version.customer)
    }
    return
  }
  const value = rendered[field]
  const id = isRendered(value) ? value['id'] : value
  const related = typeof id === 'string' ? find(id) : undefined
  if (!related) return
  const child = isRendered(value) ? value : render(related, pages_url)
  rendered[field] = child
  expandPath(child, related, rest, find, pages_url)
}

function isRendered(value: unknown): value is Rendered {
  return typeof value === 'object' && value !== null
}
