// Verification scenarios: the person is checked, tries again or gives up, and an operator may decide.
import { MERCHANT, RECIPIENT } from '#test/parties.ts'
import { postUntilFinal, type Scenario } from '../calls.ts'
import {
  reportUnexpected,
  atProcessor,
  createResource,
  changeResource,
  waitForStatus,
  expectEnd,
  createParty,
  referenceOf,
  readUntil,
  type CreatedResource,
} from './steps.ts'

const PARTIES = { customer: { name: 'Ada' }, merchant: MERCHANT, recipient: RECIPIENT }

type Check = CreatedResource & { settle: (status: string, reason?: string) => Promise<boolean> }

export async function verificationScenario(scenario: Scenario): Promise<void> {
  const { random, key } = scenario
  const subject_type = random.pick(['customer', 'merchant', 'recipient'] as const)
  const subject_id = await createParty(scenario, subject_type, PARTIES[subject_type])
  const body = { idempotency_key: `${key}-kyc`, subject_type, subject_id }
  expectEnd(scenario, body.idempotency_key, 'requires_input')
  const answer = await createResource(scenario, 'kyc', body)
  if (answer.status >= 400) reportUnexpected(scenario, key, answer)
  if (answer.status !== 201) return
  const created: CreatedResource = { resource: 'kyc', key: body.idempotency_key, id: answer.body.id }
  await expectSecondVerificationRefused(scenario, { ...body, idempotency_key: `${key}-kyc-more` })
  const reference = await referenceOf(scenario, created)
  if (reference === null) return
  const settle: Check['settle'] = (status, reason) =>
    atProcessor(scenario, `/identity/${reference}/settle`, { status, ...(reason && { reason }) })
  await random.pick(VARIANTS)(scenario, { ...created, settle })
}

/** A second verification is refused while one is open. */
async function expectSecondVerificationRefused(
  scenario: Scenario,
  body: object & { idempotency_key: string },
): Promise<void> {
  if (scenario.random.next() < 0.8) return
  const answer = await postUntilFinal(scenario, '/v1/compliance/kyc', body)
  if (answer.body.error?.code !== 'kyc_open') reportUnexpected(scenario, body.idempotency_key, answer)
}

const VARIANTS: ((scenario: Scenario, check: Check) => Promise<void>)[] = [
  async (scenario, check) => {
    await check.settle('verified')
    await waitForStatus(scenario, check, 'approved')
  },
  async (scenario, check) => {
    await check.settle('canceled')
    await waitForStatus(scenario, check, 'rejected')
  },
  async (scenario, check) => {
    await check.settle('processing')
    await check.settle('verified')
    await waitForStatus(scenario, check, 'approved')
  },
  async (scenario, check) => {
    await check.settle('requires_input', 'document_expired')
    await readUntil(scenario, check, ({ failure }) => failure?.code === 'document_expired')
    await changeResource(scenario, 'link', check, 'link', { idempotency_key: `${scenario.key}-link` })
    await check.settle('verified')
    await waitForStatus(scenario, check, 'approved')
  },
  decidedByHand,
  decidedByHand,
]

/** A manual decision before, after or during the provider's decision. Exactly one request decides. */
async function decidedByHand(scenario: Scenario, check: Check): Promise<void> {
  const { random, key } = scenario
  const decision = random.pick(['approved', 'rejected'])
  const decide = (nth: number) => {
    const body = {
      idempotency_key: `${key}-decide-${nth}`,
      decision,
      reason: 'The document was seen in person.',
    }
    return changeResource(scenario, 'decide', check, 'decide', body)
  }
  const meanwhile = random.next() < 0.6
  expectEnd(scenario, check.key, decision)
  const statuses = await Promise.all([
    decide(1),
    decide(2),
    meanwhile && check.settle(random.pick(['verified', 'canceled', 'processing'])),
  ])
  if (statuses.filter((status) => status === 200).length !== 1)
    scenario.record.problems.push({
      problem: 'a verification was not decided exactly once',
      key,
      statuses,
    })
  await readUntil(scenario, check, ({ status, decided_by }) => status === decision && decided_by === 'manual')
}
