// The wake-ups that the webhooks host sends for notifications by mode: its window has 8 of each. No worker runs.
import { expect } from 'vitest'
import { signStripe } from '#emulators/stripe/main.ts'
import { fabricatedEvent, postWebhook } from '#test/stripe-events.ts'
import { testIn } from '#test/world.ts'

const [TEST_SECRET, LIVE_SECRET] = ['whsec_of_the_twins', 'whsec_test_current']

const test = testIn({
  parts: ['webhooks'],
  env: { STRIPE_TEST_WEBHOOK_SECRET: TEST_SECRET, TENANT_WINDOW: '1' },
})

test('the webhooks host sends wake-ups for notifications of live mode, however many of test mode wait', async ({
  world,
}) => {
  let last = 0
  const post = async (livemode: boolean) => {
    const intent = { id: `pi_unknown_${++last}`, object: 'payment_intent', status: 'requires_action' }
    const event = { ...fabricatedEvent('payment_intent.payment_failed', intent), livemode }
    const body = JSON.stringify(event)
    const signature = signStripe(body, livemode ? LIVE_SECRET : TEST_SECRET)
    expect((await postWebhook(world, body, { 'stripe-signature': signature })).status).toBe(200)
    const [job] = await world.sql<{ is_sent: boolean }[]>`
      select j.wakeup_sent_at is not null as is_sent from jobs j join notifications n on n.id = j.id
      where n.event_id = ${event.id}`
    return job!.is_sent
  }
  const sent: boolean[] = []
  for (let index = 0; index < 10; index++) sent.push(await post(false))
  expect(sent.slice(0, 8)).toEqual(Array.from({ length: 8 }, () => true))
  expect(await post(true)).toBe(true)
})
