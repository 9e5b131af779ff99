// The model of a resource for scenarios: its creation, moves and states.
import type { Arbitrary } from 'fast-check'
import { freshKey } from '#test/client.ts'
import type { Notifier } from '../notifications/notice.ts'
import type { SendRequest } from './recording-client.ts'

/** A resource as the API returns it. */
export type Resource = Record<string, any>

/** An API request. `allowedStatuses`: the allowed statuses, by the resource before the request. */
export type TenantMove = {
  by: 'tenant'
  method?: 'POST' | 'PATCH' | 'DELETE'
  path: (resource: Resource) => string
  body?: (resource: Resource) => object
  allowedStatuses: (resource: Resource) => number[]
}
/** An action at the provider through its control API. The provider may refuse. */
export type ProviderMove = { by: 'provider'; path: (reference: string) => string; status: string }
/** A trusted notification of the provider. */
export type NotificationMove = {
  by: 'notifier'
  notifier: Notifier
  /** The notification for a resource; null if the provider could not send one. */
  notice: (resource: Resource) => { target: string; type: string; body: string } | null
}
export type Move = TenantMove | ProviderMove | NotificationMove

export type ResourceModel = {
  name: string
  parameters: Arbitrary<any>
  /** Creates a resource and returns its path; null if the provider has created none. */
  create: (
    sendRequest: SendRequest,
    parameters: any,
    settled: () => Promise<unknown>,
  ) => Promise<string | null>
  moves: Record<string, Move>
  stateOf: (resource: Resource) => string
  /** The direct successors of each state. */
  next: Record<string, string[]>
  /** The object's id at the provider. Only for resources with `moves`: changes that the emulator makes. */
  referenceOf?: (resource: Resource) => string | null
  /** The provider of the moves. Default: the processor. */
  provider?: 'sms'
}

export const post = async (sendRequest: SendRequest, path: string, body: object): Promise<Resource> => {
  const answer = await sendRequest('POST', path, { idempotency_key: freshKey(), ...body })
  if (answer.status !== 201) throw new Error(`POST ${path} was not answered with 201: ${answer.text}`)
  return answer.body
}
export const statusOf = ({ status }: Resource): string => status
export const allowedInStatuses = (open: string[], allowedStatuses: number[]) => (resource: Resource) => {
  return open.includes(resource['status']) ? allowedStatuses : [409]
}
