// The nouns of the API: how people call them, and where their pages are. A test compares them with the API and the routes.
import { inWords } from './kit/statuses.ts'

/** `page`: each row has one below it. `list`: they are only on the page of all. `word`: where it is not the noun itself. */
export const NOUN_PAGES = {
  customer: { page: '/customers' },
  recipient: { page: '/recipients' },
  merchant: { page: '/merchants' },
  payment: { page: '/payments' },
  refund: { page: '/refunds' },
  dispute: { page: '/disputes' },
  payout: { page: '/payouts' },
  top_up: { page: '/wallet/top-ups', word: 'Top-up' },
  kyc: { page: '/compliance', word: 'Verification' },
  ai_task: { page: '/ai-tasks', word: 'AI task' },
  message: { page: '/messages' },
  template: { page: '/messages/templates' },
  suppression: { list: '/messages/suppressions' },
  webhook_endpoint: { page: '/webhooks' },
  webhook_delivery: { page: '/webhooks/deliveries' },
  webhook_recovery: { list: '/webhooks' },
  event: { page: '/events' },
} as const

type Place = { word?: string } & ({ page: string } | { list: string })

const placeOf = (noun: string): Place | undefined =>
  Object.entries<Place>(NOUN_PAGES).find(([name]) => name === noun)?.[1]

/** The address of a row's page; undefined for a noun that the pages do not know. */
export function pageOfNoun(noun: keyof typeof NOUN_PAGES, id: string): string
export function pageOfNoun(noun: string, id: string): string | undefined
export function pageOfNoun(noun: string, id: string): string | undefined {
  const place = placeOf(noun)
  return place && ('page' in place ? `${place.page}/${id}` : place.list)
}

/** A noun for people: `webhook_endpoint` is `Webhook endpoint`. */
export function nounWords(noun: string): string {
  return placeOf(noun)?.word ?? inWords(noun)
}

/** `1 AI task`, `12 payments`. */
export function countOfNoun(count: number, noun: string): string {
  const words = nounWords(noun)
  // `AI task` keeps its capitals.
  const lower = /^[A-Z][a-z]/.test(words) ? words[0]!.toLowerCase() + words.slice(1) : words
  return `${count.toLocaleString()} ${lower}${count === 1 ? '' : 's'}`
}
