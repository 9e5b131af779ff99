// Stories of balances: money is brought in, and paid out again.
import type { Story } from '../calls.ts'
import { payoutStory, raceForBalance } from './payouts.ts'
import { topUp, topUpStory } from './top-ups.ts'

export async function moneyStory(story: Story): Promise<void> {
  const { random } = story
  const kind = random.next()
  if (kind < 0.2) return await topUpStory(story)
  if (kind < 0.4) return await raceForBalance(story)
  const amount_minor = random.between(200, 5000)
  if (await topUp(story, amount_minor)) await payoutStory(story, amount_minor)
}
