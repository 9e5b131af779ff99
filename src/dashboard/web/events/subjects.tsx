// What events are about, and where its page is.
import { Link } from '@tanstack/react-router'
import { shortId } from '../kit/Id.tsx'
import { inWords } from '../kit/statuses.ts'

const PAGES: Record<string, string> = {
  customer: '/customers',
  recipient: '/recipients',
  merchant: '/merchants',
  payment: '/payments',
  refund: '/refunds',
  payout: '/payouts',
  top_up: '/wallet/top-ups',
  kyc: '/compliance',
  ai_task: '/ai-tasks',
  message: '/messages',
  template: '/messages/templates',
  webhook_endpoint: '/webhooks',
}

const WORDS: Record<string, string> = { kyc: 'Verification', ai_task: 'AI task' }

/** The subject of an event by its kind and id, as a link where it has a page. */
export function EventSubject({ type, id, whole = false }: { type: string; id: string; whole?: boolean }) {
  const text = (
    <>
      {WORDS[type] ?? inWords(type)} <code>{whole ? id : shortId(id)}</code>
    </>
  )
  const page = PAGES[type]
  return page === undefined ? <span>{text}</span> : <Link to={`${page}/${id}`}>{text}</Link>
}
