// Stories of payouts: each way in which one can end, and many that want the same balance.
import type { Answer } from '#test/client.ts'
import { ask, asOther, type Story } from '../calls.ts'
import { note } from '../record.ts'
import {
  astray,
  atProcessor,
  begin,
  change,
  endsAs,
  leaves,
  party,
  referenceOf,
  type Begun,
} from './steps.ts'
import { topUp } from './top-ups.ts'

const TYPES = { ba: 'bank_account', card: 'card', acct: 'account' } as const
const PAID = ['ba_success', 'card_success', 'acct_success'] as const
const RACERS = 8

type Way = (story: Story, amount_minor: number) => Promise<void>

/** Of money that is there, unless others were faster. */
export async function payoutStory(story: Story, amount_minor: number): Promise<void> {
  await story.random.pick(WAYS)(story, amount_minor)
}

const comesTo =
  (destination: string, status: string): Way =>
  async (story, amount_minor) => {
    const payout = await payOut(story, amount_minor, destination, status)
    if (payout !== null) await endsAs(story, payout, status)
  }

const WAYS: Way[] = [
  ...PAID.map((destination) => comesTo(destination, 'paid')),
  comesTo('ba_noAccount', 'failed'),
  comesTo('ba_lateReturn', 'failed'),
  comesTo('ba_refused', 'failed'),
  settledByBank,
  sentBack,
  reversed,
  canceledInTime,
  canceledAtOnce,
  failedAtOnce,
  failedByHand,
]

/** The bank decides, and the processor no longer lets go of it. */
async function settledByBank(story: Story, amount_minor: number): Promise<void> {
  const { random, key } = story
  const payout = await payOut(story, amount_minor, 'ba_manual', 'processing')
  const reference = payout && (await referenceOf(story, payout))
  if (reference === null) return
  if (random.next() < 0.5) await change(story, 'cancel_payout', payout!, 'cancel', named(`${key}-cancel`))
  const status = random.pick(['paid', 'failed', 'canceled'])
  await atProcessor(story, `/payouts/${reference}/settle`, { status })
  await endsAs(story, payout!, status)
}

/** By the bank, after it was seen to be paid. */
async function sentBack(story: Story, amount_minor: number): Promise<void> {
  const payout = await payOut(story, amount_minor, 'ba_manual', 'processing')
  const reference = payout && (await referenceOf(story, payout))
  if (reference === null) return
  for (const status of ['paid', 'failed']) {
    await atProcessor(story, `/payouts/${reference}/settle`, { status })
    await endsAs(story, payout!, status)
  }
}

/** In parts; it has failed when all of it is back. */
async function reversed(story: Story, amount_minor: number): Promise<void> {
  const payout = await payOut(story, amount_minor, 'acct_success', 'paid')
  const reference = payout && (await referenceOf(story, payout))
  if (reference === null) return
  const path = `/transfers/${reference}/reverse`
  await atProcessor(story, path, { amount: story.random.between(1, amount_minor - 1) })
  if (story.random.next() < 0.3) return
  await atProcessor(story, path, {})
  await endsAs(story, payout!, 'failed')
}

/** The processor lets go of it, as long as the bank has not paid it. */
async function canceledInTime(story: Story, amount_minor: number): Promise<void> {
  const { random, key } = story
  const payout = await payOut(story, amount_minor, 'ba_pending', 'processing')
  const reference = payout && (await referenceOf(story, payout))
  if (reference === null) return
  const racing = random.next() < 0.4
  leaves(story, payout!.key, 'canceled', ...(racing ? ['paid'] : []))
  const [status] = await Promise.all([
    change(story, 'cancel_payout', payout!, 'cancel', named(`${key}-cancel`)),
    racing && atProcessor(story, `/payouts/${reference}/settle`, { status: 'paid' }),
  ])
  if (status !== 202) await endsAs(story, payout!, status === 200 || !racing ? 'canceled' : 'paid')
}

/** While its call is on its way, twice. */
async function canceledAtOnce(story: Story, amount_minor: number): Promise<void> {
  const payout = await payOut(story, amount_minor, story.random.pick(PAID), ['canceled', 'paid'], {})
  if (payout === null) return
  const statuses = await Promise.all([
    change(story, 'cancel_payout', payout, 'cancel', named(`${story.key}-cancel-1`)),
    change(asOther(story), 'cancel_payout', payout, 'cancel', named(`${story.key}-cancel-2`)),
  ])
  if (!statuses.includes(202)) await endsAs(story, payout, statuses.includes(200) ? 'canceled' : 'paid')
}

/** While its call is on its way: what that comes to decides. */
async function failedAtOnce(story: Story, amount_minor: number): Promise<void> {
  const payout = await payOut(story, amount_minor, story.random.pick(PAID), ['failed', 'paid'], {})
  if (payout === null) return
  const status = await fail(story, payout)
  if (status !== 202) await endsAs(story, payout, status === 200 ? 'failed' : 'paid')
}

/** The bank decides, at the same moment or later: a failure by hand waits for that. */
async function failedByHand(story: Story, amount_minor: number): Promise<void> {
  const { random } = story
  const payout = await payOut(story, amount_minor, 'ba_manual', 'processing')
  const reference = payout && (await referenceOf(story, payout))
  if (reference === null) return
  const status = random.pick(['paid', 'paid', 'failed', 'canceled'])
  const settle = () => atProcessor(story, `/payouts/${reference}/settle`, { status })
  const racing = random.next() < 0.5
  // Where the bank is faster, nobody wanted the payout failed yet.
  const end = status === 'paid' ? 'paid' : 'failed'
  leaves(story, payout!.key, end, ...(racing ? [status] : []))
  const [answered] = await Promise.all([fail(story, payout!), racing && settle()])
  if (!racing) await settle()
  await endsAs(story, payout!, answered === 409 ? status : end)
}

/** Somebody without money brings some in, and wants to pay it out more often than it is there. */
export async function raceForBalance(story: Story): Promise<void> {
  const { random, seen } = story
  const rich = { ...story, clients: await story.newTenant() }
  const [fit, amount_minor] = [random.between(1, 3), random.between(200, 2000)]
  if (!(await topUp(rich, fit * amount_minor))) return
  const recipient_id = await recipient(rich, random.pick(PAID))
  const asked = await Promise.all(
    Array.from({ length: RACERS }, async (_, nth) => {
      const key = `${story.key}-payout-${nth + 1}`
      leaves(rich, key, 'paid')
      const body = { idempotency_key: key, amount_minor, currency: 'usd', recipient_id }
      const answer = await begin({ ...rich, first: story.first + nth }, 'payout', body)
      return { key, answer }
    }),
  )
  const won = asked.filter(({ answer }) => answer.status < 300)
  if (won.length !== fit)
    seen.problems.push({
      problem: 'a race for a balance has another number of winners',
      fit,
      won: won.length,
      story: story.key,
    })
  for (const { key, answer } of asked)
    if (answer.status === 201) await endsAs(rich, { noun: 'payout', key, id: answer.body.id }, 'paid')
    else if (answer.status >= 400 && !lacksBalance(answer)) astray(rich, key, answer)
  if (won.some(({ answer }) => answer.status !== 201)) return
  const balances = await ask(rich, random.between(0, 1), (client) => client.get('/v1/wallet/balances'))
  const left = balances?.status === 200 && balances.body[0]
  if (left && (left.balance_minor !== 0 || left.pending_payouts_minor !== 0))
    seen.problems.push({ problem: 'a balance that was paid out is still shown', left, story: story.key })
}

/** Null: there is too little, or nobody knows yet whether the processor has taken it, or it was refused as it should be. */
async function payOut(
  story: Story,
  amount_minor: number,
  destination: string,
  left: string | string[],
  headers?: Record<string, string>,
): Promise<Begun | null> {
  const key = `${story.key}-payout`
  const recipient_id = await recipient(story, destination)
  leaves(story, key, ...[left].flat())
  const body = { idempotency_key: key, amount_minor, currency: 'USD', recipient_id }
  const answer = await begin(story, 'payout', body, headers)
  if (answer.status < 300) return answer.status === 201 ? { noun: 'payout', key, id: answer.body.id } : null
  const { code, context } = answer.body.error
  if (code === 'payout_refused' && destination === 'ba_refused')
    note(story.seen, { kind: 'payout', key, id: context.payout_id, status: 'failed', amount_minor: null })
  else if (!lacksBalance(answer)) astray(story, key, answer)
  return null
}

function lacksBalance({ body: { error } }: Answer): boolean {
  return (
    error.code === 'insufficient_balance' && error.context.available_minor < error.context.requested_minor
  )
}

async function recipient(story: Story, destination: string): Promise<string> {
  const type = TYPES[destination.split('_')[0] as keyof typeof TYPES]
  return await party(story, 'recipient', { name: 'Ada', type, currency: 'usd', country: 'US', destination })
}

const named = (idempotency_key: string) => ({ idempotency_key })

async function fail(story: Story, payout: Begun): Promise<number> {
  const body = { ...named(`${story.key}-fail`), reason: 'The bank says so.' }
  return await change(story, 'fail_payout', payout, 'fail', body)
}
