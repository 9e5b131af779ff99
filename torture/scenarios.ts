// Selects the scenarios of the load. The same seed gives the same scenarios.
import { sendOnce, withOtherClientFirst, postUntilFinal, acceptanceOf, type Scenario } from './calls.ts'
import { recordAcceptance } from './record.ts'
import { messageScenario } from './scenarios/messages.ts'
import { moneyScenario } from './scenarios/money.ts'
import { paymentScenario } from './scenarios/payments.ts'
import { verificationScenario } from './scenarios/verifications.ts'

export async function runScenario(scenario: Scenario): Promise<void> {
  const kind = scenario.random.next()
  if (kind < 0.4) return await paymentScenario(scenario)
  if (kind < 0.52) return await moneyScenario(scenario)
  if (kind < 0.58) return await verificationScenario(scenario)
  if (kind < 0.76) return await messageScenario(scenario)
  await customerScenario(scenario)
}

async function customerScenario(scenario: Scenario): Promise<void> {
  const body = {
    idempotency_key: `${scenario.key}-customer`,
    name: 'Ada',
    email: `${scenario.key}@example.com`,
  }
  const path = '/v1/customers'
  const created = await postUntilFinal(scenario, path, body)
  recordAcceptance(scenario.record, acceptanceOf('customer', body.idempotency_key, created))
  const repeated = await postUntilFinal(withOtherClientFirst(scenario), path, body)
  recordAcceptance(scenario.record, acceptanceOf('customer', body.idempotency_key, repeated))
  await sendOnce(scenario, scenario.first_client, (client) =>
    client.get(`${path}/${created.body.id as string}`),
  )
  const query = `email=${encodeURIComponent(body.email)}`
  await sendOnce(scenario, scenario.first_client + 1, (client) => client.get(`${path}?${query}`))
}
