// Balance scenarios: money is topped up and paid out.
import type { Scenario } from '../calls.ts'
import { payoutScenario, raceForBalance } from './payouts.ts'
import { topUp, topUpScenario } from './top-ups.ts'

export async function moneyScenario(scenario: Scenario): Promise<void> {
  const { random } = scenario
  const kind = random.next()
  if (kind < 0.2) return await topUpScenario(scenario)
  if (kind < 0.4) return await raceForBalance(scenario)
  const amount_minor = random.between(200, 5000)
  if (await topUp(scenario, amount_minor)) await payoutScenario(scenario, amount_minor)
}
