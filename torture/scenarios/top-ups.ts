// Stories of top-ups: they come, fail, are canceled, or are taken back.
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

/** Brings money in. Whether it has come. */
export async function topUp(scenario: Scenario, amount_minor: number): Promise<boolean> {
  const begun = await beginTopUp(scenario, amount_minor, 'src_success', 'succeeded')
  if (begun !== null) await waitForStatus(scenario, begun, 'succeeded')
  return begun !== null
}

export async function topUpScenario(scenario: Scenario): Promise<void> {
  const { random } = scenario
  const amount_minor = random.between(200, 5000)
  const end = random.pick(['fails', 'succeeded', 'failed', 'canceled', 'reversed'])
  if (end === 'fails') {
    const begun = await beginTopUp(scenario, amount_minor, 'src_fails', 'failed')
    if (begun !== null) await waitForStatus(scenario, begun, 'failed')
    return
  }
  const begun = await beginTopUp(scenario, amount_minor, 'src_manual', 'pending')
  const reference = begun && (await referenceOf(scenario, begun))
  if (reference === null) return
  const settle = async (status: string) =>
    await atProcessor(scenario, `/topups/${reference}/settle`, { status })
  if (end !== 'reversed') {
    await settle(end)
    return await waitForStatus(scenario, begun!, end)
  }
  await settle('succeeded')
  // Taken back before anybody here has heard of it, or afterwards.
  if (random.next() < 0.5) await waitForStatus(scenario, begun!, 'succeeded')
  await settle('reversed')
  await waitForStatus(scenario, begun!, 'failed')
}

/** Null: nobody knows yet whether the processor has taken it. */
async function beginTopUp(
  scenario: Scenario,
  amount_minor: number,
  source: string,
  left: string,
): Promise<CreatedResource | null> {
  const key = `${scenario.key}-top-up`
  expectEnd(scenario, key, left)
  const body = { idempotency_key: key, amount_minor, currency: 'usd', source }
  const answer = await createResource(scenario, 'top_up', body)
  if (answer.status >= 400) reportUnexpected(scenario, key, answer)
  return answer.status === 201 ? { resource: 'top_up', key, id: answer.body.id } : null
}
