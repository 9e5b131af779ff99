// The links of traced notifications are looked for after the answer and after the job, for a moment only.
import { beforeAll, expect, test } from 'vitest'
import { signStripe } from '#emulators/stripe/main.ts'
import { authorizedPayment, capturedPayment } from '#test/payments.ts'
import { until } from '#test/process.ts'
import type { StripeEvent } from '#test/stripe-events.ts'
import { createTracedDeployment, type TracedDeployment } from '#test/traced-deployment.ts'

let deployment: TracedDeployment

beforeAll(async () => {
  deployment = await createTracedDeployment({
    webhooks: true,
    env: { TRACES_PER_SECOND: '1000', WORKER_CONCURRENCY: '1' },
  })
  await deployment.startApi()
  await deployment.startWorker()
  const { sql } = deployment
  await sql`
    create function looks_for_no_link() returns boolean language plpgsql as $$
    begin
      if current_query() like '%j.trace_context is not null%' then perform pg_sleep(60); end if;
      return true;
    end $$`
  return () => deployment.close()
})

test('a slow database delays no answer to a notification', async () => {
  const { client, provider, webhooks } = deployment
  const { url, api_key, webhook_secret } = provider('stripe')
  const { processor_reference } = await authorizedPayment(client)
  const response = await fetch(`${url}/v1/events?limit=100`, {
    headers: { authorization: `Bearer ${api_key}` },
  })
  const { data } = (await response.json()) as { data: StripeEvent[] }
  const event = data.find((each) => each.data.object.id === processor_reference)!
  await makeLinksSlow('webhooks')
  const body = JSON.stringify({ ...event, id: `${event.id}_again` })
  const answer = await webhooks.send('POST', '/stripe', {
    body,
    headers: { 'content-type': 'application/json', 'stripe-signature': signStripe(body, webhook_secret) },
  })
  expect(answer).toMatchObject({ status: 200, body: { received: true } })
  await untilLookedFor('webhooks', 1)
  // The span does not wait for the link either.
  await until('the span without a link', () =>
    deployment.collector.spans.find(({ name, links }) => name === 'POST /stripe' && links.length === 0),
  )
  await untilLookedFor('webhooks', 1)
})

test('a job does not wait in its slot while its link is looked up', async () => {
  await makeLinksSlow('worker')
  for (let nth = 0; nth < 2; nth++)
    await capturedPayment(deployment.client, { payment_method: 'pm_card_createDispute' })
  // The queue has one slot.
  await untilLookedFor('worker', 2)
  const applied =
    await deployment.sql`select from jobs where name = 'notification.apply' and state = 'succeeded'`
  expect(applied.length).toBeGreaterThanOrEqual(2)
})

/** Makes each statement of a process that looks for a link take a minute. */
async function makeLinksSlow(role: string): Promise<void> {
  const { sql } = deployment
  const name = sql(`slow_links_of_${role}`)
  await sql`
    create policy ${name} on jobs as restrictive for select to ${sql(`sluice_${role}`)} using (looks_for_no_link())`
}

/** Resolves while this many statements of a process look for links. */
async function untilLookedFor(role: string, statements: number): Promise<void> {
  const { sql } = deployment
  await until('the search for links', async () => {
    const found = await sql`
      select from pg_stat_activity
      where datname = current_database() and usename = ${`sluice_test_${role}`} and wait_event = 'PgSleep'`
    return found.length >= statements
  })
}
