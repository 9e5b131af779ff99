// The nouns of the API: how people call them, and where their pages are.
import { inWords } from './kit/statuses.ts'

const PAGES: Record<string, string> = {
  customer: '/customers',
  recipient: '/recipients',
  merchant: '/merchants',
  payment: '/payments',
  refund: '/refunds',
  dispute: '/disputes',
  payout: '/payouts',
  top_up: '/wallet/top-ups',
  kyc: '/compliance',
  ai_task: '/ai-tasks',
  message: '/messages',
  webhook_endpoint: '/webhooks',
  webhook_delivery: '/webhooks/deliveries',
  event: '/events',
}
/** Those without a page of their own are on that of all. */
const LISTS: Record<string, string> = {
  template: '/messages/templates',
  suppression: '/messages/suppressions',
  webhook_recovery: '/webhooks',
}
const WORDS: Record<string, string> = { kyc: 'Verification', ai_task: 'AI task' }

/** The address of a row's page; undefined where the pages show no such noun. */
export function pageOfNoun(noun: string, id: string): string | undefined {
  return PAGES[noun] === undefined ? LISTS[noun] : `${PAGES[noun]}/${id}`
}

/** A noun for people: `top_up` is `Top up`. */
export function nounWords(noun: string): string {
  return WORDS[noun] ?? inWords(noun)
}
