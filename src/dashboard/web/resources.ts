// The resources of the API: labels, and addresses of their pages. A test compares them with the API and the routes.
import { humanize } from './kit/statuses.ts'
import { counted } from './kit/counts.ts'

/**
 * `page`: each row has a page below this address. `list`: rows are only shown in this list. `label`: default is the
 * humanized name.
 */
export const RESOURCE_PAGES = {
  customer: { page: '/customers' },
  recipient: { page: '/recipients' },
  merchant: { page: '/merchants' },
  payment: { page: '/payments' },
  refund: { page: '/refunds' },
  dispute: { page: '/disputes' },
  payout: { page: '/payouts' },
  top_up: { page: '/wallet/top-ups', label: 'Top-up' },
  kyc: { page: '/compliance', label: 'Verification' },
  ai_task: { page: '/ai-tasks', label: 'AI task' },
  message: { page: '/messages' },
  template: { page: '/messages/templates' },
  suppression: { list: '/messages/suppressions' },
  webhook_endpoint: { page: '/webhooks' },
  webhook_delivery: { page: '/webhooks/deliveries' },
  webhook_recovery: { list: '/webhooks' },
  feed: { list: '/events' },
  request: { list: '/events', label: 'Lost request' },
  event: { page: '/events' },
} as const

type ResourceEntry = { label?: string } & ({ page: string } | { list: string })

const entryOf = (resource: string): ResourceEntry | undefined =>
  Object.entries<ResourceEntry>(RESOURCE_PAGES).find(([name]) => name === resource)?.[1]

/** The address of a row's page. Undefined: the pages do not have this resource. */
export function pageOfResource(resource: keyof typeof RESOURCE_PAGES, id: string): string
export function pageOfResource(resource: string, id: string): string | undefined
export function pageOfResource(resource: string, id: string): string | undefined {
  const entry = entryOf(resource)
  return entry && ('page' in entry ? `${entry.page}/${id}` : entry.list)
}

/** The label of a resource: `webhook_endpoint` is `Webhook endpoint`. */
export function resourceLabel(resource: string): string {
  return entryOf(resource)?.label ?? humanize(resource)
}

/** A count with the label of its resource: `1 AI task`, `12 payments`. */
export function resourceCount(count: number, resource: string): string {
  const label = resourceLabel(resource)
  // `AI task` keeps its capitals.
  const lower = /^[A-Z][a-z]/.test(label) ? label[0]!.toLowerCase() + label.slice(1) : label
  return counted(count, lower)
}
