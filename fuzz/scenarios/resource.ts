// What a noun is whose stories are told, and what their beginnings and moves share.
import type { Arbitrary } from 'fast-check'
import { freshKey } from '#test/client.ts'
import type { Notifier } from '../notifications/notice.ts'
import type { SendRequest } from './asker.ts'

/** A resource as it was answered. */
export type Resource = Record<string, any>

/** What is asked of the API; `may`: the statuses that it may be answered with, by the resource as it was before. */
export type TenantMove = {
  by: 'tenant'
  method?: 'POST' | 'PATCH' | 'DELETE'
  path: (resource: Resource) => string
  body?: (resource: Resource) => object
  may: (resource: Resource) => number[]
}
/** What somebody does at the provider, by its control API; it may be refused there. */
export type ProviderMove = { by: 'provider'; path: (reference: string) => string; status: string }
/** What its provider tells of it, believed as it stands. */
export type NotificationMove = {
  by: 'notifier'
  notifier: Notifier
  /** Null where it could not be true. */
  notice: (resource: Resource) => { target: string; type: string; body: string } | null
}
export type Move = TenantMove | ProviderMove | NotificationMove

export type ResourceModel = {
  name: string
  parameters: Arbitrary<any>
  /** Makes one, and answers where it is read; null where the provider made none. */
  begin: (ask: SendRequest, parameters: any, settled: () => Promise<unknown>) => Promise<string | null>
  moves: Record<string, Move>
  stateOf: (resource: Resource) => string
  /** The states that may follow each, at once or through others. */
  next: Record<string, string[]>
  /** Of those that whose control API moves it knows. */
  referenceOf?: (resource: Resource) => string | null
  /** The provider that is meant; the processor unless told. */
  provider?: 'sms'
}

export const post = async (ask: SendRequest, path: string, body: object): Promise<Resource> => {
  const answer = await ask('POST', path, { idempotency_key: freshKey(), ...body })
  if (answer.status !== 201) throw new Error(`POST ${path} was not answered 201: ${answer.text}`)
  return answer.body
}
export const statusOf = ({ status }: Resource): string => status
export const whenIn = (open: string[], may: number[]) => (resource: Resource) => {
  return open.includes(resource['status']) ? may : [409]
}
