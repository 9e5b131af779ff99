// Stories of top-ups: they come, fail, are canceled, or are taken back.
import type { Story } from '../calls.ts'
import { astray, atProcessor, begin, endsAs, leaves, referenceOf, type Begun } from './steps.ts'

/** Brings money in. Whether it has come. */
export async function topUp(story: Story, amount_minor: number): Promise<boolean> {
  const begun = await beginTopUp(story, amount_minor, 'src_success', 'succeeded')
  if (begun !== null) await endsAs(story, begun, 'succeeded')
  return begun !== null
}

export async function topUpStory(story: Story): Promise<void> {
  const { random } = story
  const amount_minor = random.between(200, 5000)
  const end = random.pick(['fails', 'succeeded', 'failed', 'canceled', 'reversed'])
  if (end === 'fails') {
    const begun = await beginTopUp(story, amount_minor, 'src_fails', 'failed')
    if (begun !== null) await endsAs(story, begun, 'failed')
    return
  }
  const begun = await beginTopUp(story, amount_minor, 'src_manual', 'pending')
  const reference = begun && (await referenceOf(story, begun))
  if (reference === null) return
  const settle = async (status: string) => await atProcessor(story, `/topups/${reference}/settle`, { status })
  if (end !== 'reversed') {
    await settle(end)
    return await endsAs(story, begun!, end)
  }
  await settle('succeeded')
  // Taken back before anybody here has heard of it, or afterwards.
  if (random.next() < 0.5) await endsAs(story, begun!, 'succeeded')
  await settle('reversed')
  await endsAs(story, begun!, 'failed')
}

/** Null: nobody knows yet whether the processor has taken it. */
async function beginTopUp(
  story: Story,
  amount_minor: number,
  source: string,
  left: string,
): Promise<Begun | null> {
  const key = `${story.key}-top-up`
  leaves(story, key, left)
  const body = { idempotency_key: key, amount_minor, currency: 'usd', source }
  const answer = await begin(story, 'top_up', body)
  if (answer.status >= 400) astray(story, key, answer)
  return answer.status === 201 ? { noun: 'top_up', key, id: answer.body.id } : null
}
