// The resources: one definition for each resource with a table. The audit, the reconciler, notifications, events,
// timelines and idempotency keys use these definitions.
import assert from 'node:assert/strict'
import type { Fragment, Sql, Tx } from '#core/db.ts'
import { CALLS, type CallingResource } from '#jobs/index.ts'
import { aiTaskResource } from './ai-tasks/resource.ts'
import { CUSTOMER_EVENTS, customerEventSchema } from './customers/customer.ts'
import { deliveryResource } from './deliveries/delivery.ts'
import { recoveryResource } from './deliveries/recovery.ts'
import { disputeResource } from './disputes/resource.ts'
import { feedResource } from './feed-restarts.ts'
import { messageResource } from './messages/resource.ts'
import { requestResource } from './lost-requests/resource.ts'
import { MERCHANT_EVENTS, merchantSchema } from './merchants/merchant.ts'
import { paymentResource } from './payments/resource.ts'
import { payoutResource } from './payouts/resource.ts'
import { RECIPIENT_EVENTS, recipientSchema } from './recipients/recipient.ts'
import { refundResource } from './refunds/resource.ts'
import { suppressionResource } from './suppressions/suppression.ts'
import type { ProviderResource, Resource, UnderWay } from './resource.ts'
import { templateResource } from './templates/template.ts'
import { topUpResource } from './top-ups/resource.ts'
import { verificationResource } from './verifications/resource.ts'
import { webhookEndpointResource } from './webhook-endpoints/endpoint.ts'

export const RESOURCES = {
  customer: { table: 'customers', view: customerEventSchema, events: CUSTOMER_EVENTS },
  recipient: { table: 'recipients', view: recipientSchema, events: RECIPIENT_EVENTS },
  merchant: { table: 'merchants', view: merchantSchema, events: MERCHANT_EVENTS },
  payment: paymentResource,
  refund: refundResource,
  dispute: disputeResource,
  payout: payoutResource,
  top_up: topUpResource,
  kyc: verificationResource,
  ai_task: aiTaskResource,
  message: messageResource,
  template: templateResource,
  suppression: suppressionResource,
  webhook_endpoint: webhookEndpointResource,
  webhook_delivery: deliveryResource,
  webhook_recovery: recoveryResource,
  feed: feedResource,
  request: requestResource,
} as const satisfies Record<string, Resource> & Record<CallingResource, Resource & { under_way: UnderWay }>

export type ResourceName = keyof typeof RESOURCES
export const RESOURCE_NAMES = Object.keys(RESOURCES) as ResourceName[]

/** The resources that also exist at a provider. */
export type ProviderResourceName = {
  [N in ResourceName]: (typeof RESOURCES)[N] extends { at_provider: object } ? N : never
}[ResourceName]
export const PROVIDER_RESOURCE_NAMES = RESOURCE_NAMES.filter(
  (resource): resource is ProviderResourceName => 'at_provider' in RESOURCES[resource],
)

/** The resources that cause ledger transfers. */
export type PostingResourceName = {
  [N in ResourceName]: (typeof RESOURCES)[N] extends { transfer_kinds: object } ? N : never
}[ResourceName]
export const POSTING_RESOURCE_NAMES = RESOURCE_NAMES.filter(
  (resource): resource is PostingResourceName => 'transfer_kinds' in RESOURCES[resource],
)

/** One row of a resource. */
export type ResourceKey = { tenant_id: string; resource: ResourceName; resource_id: string }

/** The definition of a resource. */
export function resourceOf(resource: ResourceName): Resource {
  return RESOURCES[resource]
}

/** The definition of a resource that also exists at a provider. */
export function providerResourceOf(resource: ProviderResourceName): ProviderResource {
  return RESOURCES[resource]
}

/** The child resources of this resource, each with its table and the column with the parent's id. */
export function childrenOf(
  resource: ResourceName,
): { resource: ResourceName; table: string; id_column: string }[] {
  return RESOURCE_NAMES.flatMap((each) => {
    const { table, parent } = resourceOf(each)
    return parent?.resource === resource ? [{ resource: each, table, id_column: parent.id_column }] : []
  })
}

/**
 * The parent of a child resource, otherwise the resource. Its row's id is the `resource_id` of jobs and notifications,
 * and the `subject_id` of events.
 */
export function rootOf(resource: ResourceName): ResourceName {
  const { parent } = resourceOf(resource)
  if (parent === undefined) return resource
  const root = RESOURCE_NAMES.find((each) => each === parent.resource)
  assert(root !== undefined, `the parent of ${resource}, "${parent.resource}", is not a resource`)
  return root
}

/** The column with the id of the root row: `id`, or the parent's id. */
export function rootIdColumn(resource: ResourceName): string {
  return resourceOf(resource).parent?.id_column ?? 'id'
}

/** The resource of a job `<resource>.<verb>` or of an event type; undefined for an unknown resource. */
export function resourceNameOf(job: string): ResourceName | undefined {
  return RESOURCE_NAMES.find((resource) => job.startsWith(`${resource}.`))
}

/** The statuses of a resource's rows while one of our calls is in progress. */
export function callStatuses(resource: ResourceName): string[] {
  return CALLS.flatMap(({ job, status }) => (resourceNameOf(job) === resource ? (status ?? []) : []))
}

/** The statuses of a resource's rows while one of our calls or the provider's work is in progress. */
export function statusesUnderWay(resource: ResourceName): string[] {
  return [...callStatuses(resource), ...(resourceOf(resource).under_way?.statuses ?? [])]
}

/** The payment of the row `row`: the row or its parent; null if neither is a payment. */
export function paymentOf(sql: Sql | Tx, resource: ResourceName, row: string): Fragment {
  return rootOf(resource) === 'payment' ? sql`${sql(`${row}.${rootIdColumn(resource)}`)}` : sql`null::uuid`
}

/** The id of the resource's row that the job `j` works on; null when the payload has no valid id. */
export function rowIdOf(sql: Sql | Tx, resource: ResourceName): Fragment {
  const payload_id = sql`j.payload ->> ${`${resource}_id`}::text`
  return rootOf(resource) === resource
    ? sql`j.resource_id`
    : sql`case when pg_input_is_valid(${payload_id}, 'uuid') then (${payload_id})::uuid end`
}

/** These columns of the row `row` as a JSON object. */
export function objectOf(sql: Sql | Tx, row: string, columns: readonly string[]): Fragment {
  return sql`(select to_jsonb(selected) from (select ${sql(columns.map((column) => `${row}.${column}`))}) selected)`
}
