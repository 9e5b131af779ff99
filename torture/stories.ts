// The stories of the load: what clients, and others at the processor, do. The same for the same seed.
import { ask, asOther, insist, seenOf, type Story } from './calls.ts'
import { note } from './record.ts'
import { messageStory } from './stories/messages.ts'
import { moneyStory } from './stories/money.ts'
import { paymentStory } from './stories/payments.ts'
import { verificationStory } from './stories/verifications.ts'

export async function tell(story: Story): Promise<void> {
  const kind = story.random.next()
  if (kind < 0.4) return await paymentStory(story)
  if (kind < 0.52) return await moneyStory(story)
  if (kind < 0.58) return await verificationStory(story)
  if (kind < 0.76) return await messageStory(story)
  await customerStory(story)
}

async function customerStory(story: Story): Promise<void> {
  const body = { idempotency_key: `${story.key}-customer`, name: 'Ada', email: `${story.key}@example.com` }
  const path = '/v1/customers'
  const created = await insist(story, path, body)
  note(story.seen, seenOf('customer', body.idempotency_key, created))
  const again = await insist(asOther(story), path, body)
  note(story.seen, seenOf('customer', body.idempotency_key, again))
  await ask(story, story.first, (client) => client.get(`${path}/${created.body.id as string}`))
  const query = `email=${encodeURIComponent(body.email)}`
  await ask(story, story.first + 1, (client) => client.get(`${path}?${query}`))
}
