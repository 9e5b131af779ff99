// Carries out the acts of people in a sandbox: of a buyer, a bank, a verified person, or the recipient of an SMS.
import type { AddressHash } from '#core/addresses.ts'
import type { Tx } from '#core/db.ts'
import type { Vault } from '#core/secrets.ts'
import { endAct, lockOpenAct, type SandboxAct } from '#domain/sandboxes/acts.ts'
import { findInInbox } from '#domain/sandboxes/inbox.ts'
import { actAsBuyer } from '#providers/sandbox/stripe/buyer.ts'
import { BANK_CALL, BROWSER_CALL } from '#providers/sandbox/stripe/call.ts'
import { disputeIntent } from '#providers/sandbox/stripe/disputes.ts'
import type { Engine } from '#providers/sandbox/stripe/engine.ts'
import { Refusal } from '#providers/sandbox/stripe/errors.ts'
import { findSession, settleSession } from '#providers/sandbox/stripe/identity.ts'
import { findIntent } from '#providers/sandbox/stripe/payment-intents.ts'
import { findPayout, settlePayout } from '#providers/sandbox/stripe/payouts.ts'
import type { SandboxHost } from './host.ts'
import { storeAnswer } from './sms.ts'

type ActOptions = {
  host: SandboxHost
  vault: Vault
  hashOf: AddressHash
  /** ADDRESS_KEY. */
  address_key: string
}

const IN_ENGINE: Record<
  Exclude<SandboxAct['act'], 'answer_sms'>,
  (engine: Engine, reference: string) => unknown
> = {
  pay: (engine, id) => actAsBuyer(engine, id, 'succeed'),
  fail_payment: (engine, id) => actAsBuyer(engine, id, 'fail'),
  open_dispute: (engine, id) => disputeIntent(engine, findIntent(engine, id)),
  fail_payout: (engine, id) => settlePayout(engine, BANK_CALL, findPayout(engine, id), 'failed'),
  pass_verification: (engine, id) => settleSession(engine, BROWSER_CALL, findSession(engine, id), 'verified'),
  fail_verification: (engine, id) =>
    settleSession(engine, BROWSER_CALL, findSession(engine, id), 'requires_input'),
}

/** Carries out an act once. A refusal ends it, too. */
export async function carryOutAct(
  options: ActOptions,
  { tenant_id, id }: { tenant_id: string; id: string },
): Promise<void> {
  const { host, vault } = options
  await host.performWithin(tenant_id, async (tx, { run, lock }) => {
    const act = await lockOpenAct(tx, vault, tenant_id, id)
    if (act === undefined) return
    const { act: name, reference } = act
    await lock()
    const refused =
      name === 'answer_sms'
        ? await answerSms(tx, options, tenant_id, act)
        : await run((engine) => refusalOf(() => IN_ENGINE[name](engine, reference)))
    await endAct(tx, tenant_id, id, refused)
  })
}

/** Why the engine refuses the work, which then has changed nothing; null if it does not. */
function refusalOf(work: () => unknown): string | null {
  try {
    work()
    return null
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return error.message
  }
}

async function answerSms(
  tx: Tx,
  { vault, hashOf, address_key }: ActOptions,
  tenant_id: string,
  { reference: id, text: body }: { reference: string; text: string },
): Promise<string | null> {
  const [answered] = await findInInbox(tx, vault, tenant_id, { limit: 1, id })
  if (answered?.channel !== 'sms' || answered.direction !== 'sent')
    return 'There is no such SMS in the inbox that could be answered.'
  const { from: to, to: recipients } = answered
  await storeAnswer(tx, { tenant_id, vault, hashOf, address_key }, { from: recipients[0]!, to, body })
  return null
}
