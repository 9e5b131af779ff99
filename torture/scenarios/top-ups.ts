// Top-up scenarios: succeeded, failed, canceled, reversed.
import type { Scenario } from '../calls.ts'
import {
  reportUnexpected,
  atProcessor,
  createResource,
  waitForStatus,
  expectEnd,
  referenceOf,
  type CreatedResource,
} from './steps.ts'

/** Tops up the balance and waits for the success. Returns false if the outcome of the request is unknown. */
export async function topUp(scenario: Scenario, amount_minor: number): Promise<boolean> {
  const created = await beginTopUp(scenario, amount_minor, 'src_success', 'succeeded')
  if (created !== null) await waitForStatus(scenario, created, 'succeeded')
  return created !== null
}

export async function topUpScenario(scenario: Scenario): Promise<void> {
  const { random } = scenario
  const amount_minor = random.between(200, 5000)
  const end = random.pick(['fails', 'succeeded', 'failed', 'canceled', 'reversed'])
  if (end === 'fails') {
    const created = await beginTopUp(scenario, amount_minor, 'src_fails', 'failed')
    if (created !== null) await waitForStatus(scenario, created, 'failed')
    return
  }
  const created = await beginTopUp(scenario, amount_minor, 'src_manual', 'pending')
  const reference = created && (await referenceOf(scenario, created))
  if (reference === null) return
  const settle = async (status: string) =>
    await atProcessor(scenario, `/topups/${reference}/settle`, { status })
  if (end !== 'reversed') {
    await settle(end)
    return await waitForStatus(scenario, created!, end)
  }
  await settle('succeeded')
  // The reversal comes before or after the success was processed here.
  if (random.next() < 0.5) await waitForStatus(scenario, created!, 'succeeded')
  await settle('reversed')
  await waitForStatus(scenario, created!, 'failed')
}

/** Requests a top-up. Returns null if the outcome is unknown. */
async function beginTopUp(
  scenario: Scenario,
  amount_minor: number,
  source: string,
  statuses: string,
): Promise<CreatedResource | null> {
  const key = `${scenario.key}-top-up`
  expectEnd(scenario, key, statuses)
  const body = { idempotency_key: key, amount_minor, currency: 'usd', source }
  const answer = await createResource(scenario, 'top_up', body)
  if (answer.status >= 400) reportUnexpected(scenario, key, answer)
  return answer.status === 201 ? { resource: 'top_up', key, id: answer.body.id } : null
}
