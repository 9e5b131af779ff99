// Stories of verifications: the person is checked, tries again, gives up; somebody here decides.
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { insist, type Story } from '../calls.ts'
import {
  astray,
  atProcessor,
  begin,
  change,
  endsAs,
  leaves,
  party,
  referenceOf,
  shown,
  type Begun,
} from './steps.ts'

const PARTIES = { customer: { name: 'Ada' }, merchant: MERCHANT, recipient: RECIPIENT }

type Check = Begun & { settle: (status: string, reason?: string) => Promise<boolean> }

export async function verificationStory(story: Story): Promise<void> {
  const { random, key } = story
  const subject_type = random.pick(['customer', 'merchant', 'recipient'] as const)
  const subject_id = await party(story, subject_type, PARTIES[subject_type])
  const body = { idempotency_key: `${key}-kyc`, subject_type, subject_id }
  leaves(story, body.idempotency_key, 'requires_input')
  const answer = await begin(story, 'kyc', body)
  if (answer.status >= 400) astray(story, key, answer)
  if (answer.status !== 201) return
  const begun: Begun = { noun: 'kyc', key: body.idempotency_key, id: answer.body.id }
  await oneOnly(story, { ...body, idempotency_key: `${key}-kyc-more` })
  const reference = await referenceOf(story, begun)
  if (reference === null) return
  const settle: Check['settle'] = (status, reason) =>
    atProcessor(story, `/identity/${reference}/settle`, { status, ...(reason && { reason }) })
  await random.pick(WAYS)(story, { ...begun, settle })
}

/** While one is open another is refused. */
async function oneOnly(story: Story, body: object & { idempotency_key: string }): Promise<void> {
  if (story.random.next() < 0.8) return
  const answer = await insist(story, '/v1/compliance/kyc', body)
  if (answer.body.error?.code !== 'kyc_open') astray(story, body.idempotency_key, answer)
}

const WAYS: ((story: Story, check: Check) => Promise<void>)[] = [
  async (story, check) => {
    await check.settle('verified')
    await endsAs(story, check, 'approved')
  },
  async (story, check) => {
    await check.settle('canceled')
    await endsAs(story, check, 'rejected')
  },
  async (story, check) => {
    await check.settle('processing')
    await check.settle('verified')
    await endsAs(story, check, 'approved')
  },
  async (story, check) => {
    await check.settle('requires_input', 'document_expired')
    await shown(story, check, ({ failure }) => failure?.code === 'document_expired')
    await change(story, 'link', check, 'link', { idempotency_key: `${story.key}-link` })
    await check.settle('verified')
    await endsAs(story, check, 'approved')
  },
  decidedByHand,
  decidedByHand,
]

/** Before, after or while the provider decides: once, and for good. */
async function decidedByHand(story: Story, check: Check): Promise<void> {
  const { random, key } = story
  const decision = random.pick(['approved', 'rejected'])
  const decide = (nth: number) => {
    const body = { idempotency_key: `${key}-decide-${nth}`, decision, reason: 'Seen in person.' }
    return change(story, 'decide', check, 'decide', body)
  }
  const meanwhile = random.next() < 0.6
  leaves(story, check.key, decision)
  const statuses = await Promise.all([
    decide(1),
    decide(2),
    meanwhile && check.settle(random.pick(['verified', 'canceled', 'processing'])),
  ])
  if (statuses.filter((status) => status === 200).length !== 1)
    story.seen.problems.push({ problem: 'a verification was decided twice, or not at all', key, statuses })
  await shown(story, check, ({ status, decided_by }) => status === decision && decided_by === 'manual')
}
