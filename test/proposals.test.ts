// Proposals that a second operator confirms: corrections of the ledger and forced failures of payouts.
import { describe, expect } from 'vitest'
import { ledgerCommand } from '#commands/ledger.ts'
import { ensureTwin } from '#domain/tenants.ts'
import { newId } from '#core/ids.ts'
import { connectDatabase } from '#core/pool.ts'
import { auditEverything } from '#domain/audit/audit.ts'
import { carryOutNextProposal } from '#domain/proposals/carry-out.ts'
import { checkInvariants } from '#test/books.ts'
import type { Client } from '#test/client.ts'
import { runHere } from '#test/commands.ts'
import { waitingForLocks } from '#test/locks.ts'
import { lookUpAfterMonth } from '#test/lookups.ts'
import { loseFirstWrite } from '#test/lost-writes.ts'
import { pauseJobs, resumeJobs } from '#test/pauses.ts'
import { eventually, fault } from '#test/payments.ts'
import { accountOf, payOut, payoutIn, payoutSummary, recipient, clientWithBalance } from '#test/payouts.ts'
import { entriesOf, signedInAs, type Browser, type Person } from '#test/people.ts'
import { agree, agreed } from '#test/proposals.ts'
import { urlAs } from '#test/users.ts'
import { testIn, type World } from '#test/world.ts'

type Operator = Browser & Person

const WAIT = { prefer: 'wait=20' }
let ada: Operator
let bob: Operator
const test = testIn({ parts: ['api', 'webhooks', 'worker', 'dashboard'] })
test.beforeAll(async ({ world }) => {
  ada = await signedInAs(world, { is_operator: true })
  bob = await signedInAs(world, { is_operator: true })
})

const settle = (world: World, reference: string, status: string) =>
  world.provider('stripe').control('POST', `/payouts/${reference}/settle`, { status })
const runLedger = async (world: World, ...args: string[]) =>
  await runHere(ledgerCommand, args, { DATABASE_URL: world.config.DATABASE_URL })
const slugOf = async (world: World, tenant_id: string) =>
  (await world.sql`select slug from tenants where id = ${tenant_id}`)[0]!['slug'] as string
const correction = (shop: { tenant_id: string }, amount_minor: number) => ({
  kind: 'correction' as const,
  tenant_id: shop.tenant_id,
  currency: 'USD',
  amount_minor,
  reason: 'posted twice',
})
const failure = (shop: { tenant_id: string }, payout_id: string) => ({
  kind: 'fail_payout' as const,
  tenant_id: shop.tenant_id,
  payout_id,
  reason: 'the bank lost it',
})
const proposeAs = async (operator: Operator, proposal: object): Promise<any> => {
  const { status, body } = await operator.post('/api/ops/proposals', proposal)
  expect([status, body.state]).toEqual([201, 'open'])
  return body
}
const confirm = (operator: Browser, id: string) => operator.post(`/api/ops/proposals/${id}/confirm`)
const reject = (operator: Browser, id: string) => operator.post(`/api/ops/proposals/${id}/reject`)
const readProposal = async (id: string) => (await ada.get(`/api/ops/proposals/${id}`)).body
const awaitState = async (id: string, state: string): Promise<any> =>
  await eventually(async () => {
    const proposal = await readProposal(id)
    expect(proposal).toMatchObject({ state })
    return proposal
  })
const transactionsOf = async (shop: Client): Promise<any[]> =>
  (await shop.get('/v1/wallet/transactions?kind=correction')).body

describe('a correction', () => {
  test('of a tenant in test mode says so wherever it is listed', async ({ world }) => {
    const live = await world.clientOf()
    const slug = await slugOf(world, live.tenant_id)
    await ensureTwin(world.sql, { id: live.tenant_id, slug })
    const args = [
      '--tenant',
      `${slug}/test`,
      '--currency',
      'usd',
      '--amount=5',
      '--reason',
      'test',
      '--by',
      ada.email,
    ]
    const { stdout } = await runLedger(world, 'correct', ...args)
    const id = /^\S+/.exec(stdout)![0]
    expect([stdout, (await runLedger(world, 'list')).stdout]).toEqual([
      expect.stringContaining(`${slug}/test`),
      expect.stringContaining(`${slug}/test`),
    ])
    expect(await readProposal(id)).toMatchObject({ tenant: `${slug}/test` })
    expect((await reject(bob, id)).status).toBe(200)
  })

  test('is proposed with a command and posted once, after another operator has confirmed it', async ({
    world,
  }) => {
    const shop = await clientWithBalance(world, 1000)
    const slug = await slugOf(world, shop.tenant_id)
    const args = ['--tenant', slug, '--currency', 'usd', '--amount=-300', '--reason', 'posted twice']
    const proposal = await runLedger(world, 'correct', ...args, '--by', ada.email)
    expect(proposal).toMatchObject({ code: 0 })
    expect(proposal.stdout).toMatch(/ open {2}correct USD -3\.00 {2}/)
    const id = /^\S+/.exec(proposal.stdout)![0]
    expect((await runLedger(world, 'list', '--state', 'open')).stdout).toContain(id)
    expect(await transactionsOf(shop)).toEqual([])

    // The overview shows the proposal to every operator.
    const carol = await signedInAs(world, { role: 'owner', is_operator: true })
    const attention = async () => (await carol.get('/api/overview')).body.attention
    expect(await attention()).toContainEqual(
      expect.objectContaining({ kind: 'proposal_undecided', count: 1 }),
    )
    const own = await confirm(ada, id)
    expect([own.status, own.body.error.code]).toEqual([403, 'forbidden'])
    expect((await readProposal(id)).state).toBe('open')
    expect((await confirm(bob, id)).status).toBe(200)
    await awaitState(id, 'done')
    expect(await attention()).not.toContainEqual(expect.objectContaining({ kind: 'proposal_undecided' }))
    const second_confirm = await confirm(bob, id)
    expect([second_confirm.status, second_confirm.body.error.code]).toEqual([409, 'conflict'])
    expect(await transactionsOf(shop)).toMatchObject([
      {
        kind: 'correction',
        amount_minor: -300,
        balance_after_minor: 700,
        subject_type: null,
        subject_id: id,
      },
    ])
    expect((await shop.get('/v1/wallet/balances')).body).toMatchObject([{ balance_minor: 700 }])
    expect((await entriesOf(world, bob)).slice(-1)).toMatchObject([
      {
        action: 'proposals.confirm',
        details: { kind: 'correction', amount_minor: -300, currency: 'USD', proposed_by: ada.email },
      },
    ])
    const [entry] = await world.sql`
      select actor, tenant_id, details from audit_entries where action = 'proposals.propose' and subject_id = ${id}`
    expect(entry).toMatchObject({
      actor: expect.stringContaining(`(npm run ledger, for ${ada.email})`),
      tenant_id: shop.tenant_id,
      details: { reason: 'posted twice', amount_minor: -300 },
    })
  })

  test('can open an account of a tenant without money, and can make the balance negative', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    await agreed(world, { ...correction(shop, 250), currency: 'EUR' })
    await agreed(world, { ...correction(shop, -400), currency: 'eur' })
    expect((await shop.get('/v1/wallet/balances')).body).toMatchObject([
      { currency: 'eur', balance_minor: -150, available_minor: -150 },
    ])
  })

  test('that several workers carry out at the same time is posted once', async ({ world }) => {
    const shop = await world.clientOf()
    const ids = await Promise.all([1, 2, 3].map((amount) => agree(world, correction(shop, amount * 100))))
    await Promise.all(Array.from({ length: 12 }, () => carryOutNextProposal(world.sql)))
    for (const id of ids) await awaitState(id, 'done')
    expect(await transactionsOf(shop)).toHaveLength(3)
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 600, reserved: 0 })
  })

  test('that is proposed with the command requires an operator, a tenant, a currency, an amount in minor units and a reason', async ({
    world,
  }) => {
    const valid = {
      tenant: await slugOf(world, world.tenant_id),
      currency: 'usd',
      amount: '500',
      reason: 'posted twice',
      by: ada.email,
    }
    const correctWith = async (change: Partial<Record<keyof typeof valid, string | null>>) => {
      const options = Object.entries({ ...valid, ...change }).filter(([, value]) => value !== null)
      return await runLedger(world, 'correct', ...options.map(([name, value]) => `--${name}=${value}`))
    }
    for (const [change, message] of [
      [{ by: null }, '--by is missing'],
      [{ by: 'nobody@example.com' }, 'is not an operator'],
      [{ tenant: 'nobody' }, 'There is no tenant'],
      [{ currency: 'xyz' }, '--currency'],
      [{ amount: '5.00' }, '--amount'],
      [{ amount: '0' }, '--amount'],
      [{ amount: '9999999999999' }, '--amount'],
      [{ reason: null }, '--reason'],
    ] as const) {
      const { code, stderr } = await correctWith(change)
      expect([code, stderr]).toEqual([1, expect.stringContaining(message)])
      expect(stderr).not.toContain('    at ')
    }
    expect((await runLedger(world, '--help')).stdout).toContain('npm run ledger -- correct')
  })

  test('without a confirmed proposal is reported by the audit', async ({ world }) => {
    const shop = await world.clientOf()
    const id = await agree(world, correction(shop, 100))
    await awaitState(id, 'done')
    const problems = async () =>
      (await auditEverything(world.sql)).problems.flatMap(({ tenant_id, problem, off_by }) =>
        tenant_id === shop.tenant_id ? [`${problem} ${off_by}`] : [],
      )
    expect(await problems()).toEqual([])
    await world.sql`update proposals set amount_minor = 90 where id = ${id}`
    expect(await problems()).toEqual(['a correction is posted without a confirmed proposal 100'])
    await world.sql`update proposals set amount_minor = 100 where id = ${id}`
  })
})

describe('a proposal', () => {
  test('that is rejected, withdrawn or expired is not carried out and cannot be confirmed', async ({
    world,
  }) => {
    const shop = await world.clientOf()
    const [rejected, canceled, by_command, expired] = [
      await proposeAs(ada, correction(shop, 1)),
      await proposeAs(ada, correction(shop, 2)),
      await proposeAs(ada, correction(shop, 3)),
      await proposeAs(ada, correction(shop, 4)),
    ]
    expect((await reject(bob, rejected.id)).body.state).toBe('rejected')
    expect((await reject(ada, canceled.id)).body.state).toBe('canceled')
    const foreign_cancel = await runLedger(world, 'cancel', by_command.id, '--by', bob.email)
    expect([foreign_cancel.code, foreign_cancel.stderr]).toEqual([1, expect.stringContaining(ada.email)])
    expect(await runLedger(world, 'cancel', by_command.id, '--by', ada.email)).toMatchObject({ code: 0 })
    await world.sql`
      update proposals set created_at = now() - interval '73 hours', expires_at = now() - interval '1 hour'
      where id = ${expired.id}`
    expect((await readProposal(expired.id)).state).toBe('expired')
    for (const { id } of [rejected, canceled, by_command, expired]) {
      const answer = await confirm(bob, id)
      expect([answer.status, answer.body.error.code]).toEqual([409, 'conflict'])
    }
    expect(await carryOutNextProposal(world.sql)).toBe(false)
    expect(await transactionsOf(shop)).toEqual([])
    expect((await entriesOf(world, bob)).slice(-1)).toMatchObject([{ action: 'proposals.reject' }])
    expect((await entriesOf(world, ada)).slice(-1)).toMatchObject([{ action: 'proposals.cancel' }])
  })

  test('that the database refuses shows the error text of the database and does not delay other proposals', async ({
    world,
  }) => {
    const [shop, other] = [await clientWithBalance(world, 1000), await clientWithBalance(world, 1000)]
    const { body: payout } = await payOut(shop, await recipient(shop, 'ba_manual'), {}, WAIT)
    // The reserved amount is less than the amount that the proposal frees.
    await world.sql`
      update ledger_accounts set reserved_minor = 50 where tenant_id = ${shop.tenant_id} and name = 'available'`
    const refused = await agree(world, failure(shop, payout.id))
    await agreed(world, correction(other, 5))
    expect((await awaitState(refused, 'refused')).refused).toMatch(
      /^The database refused the proposal: .+ledger_accounts/,
    )
    await world.sql`
      update ledger_accounts set reserved_minor = 100 where tenant_id = ${shop.tenant_id} and name = 'available'`
    await agreed(world, failure(shop, payout.id))
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 1000, reserved: 0 })
  })

  test('on a locked account is skipped with an error and carried out later', async ({ world }) => {
    const [shop, other] = [await clientWithBalance(world, 1000), await clientWithBalance(world, 1000)]
    const release = Promise.withResolvers<void>()
    const locked = Promise.withResolvers<void>()
    const holder = world.sql.begin(async (tx) => {
      await tx`select from ledger_accounts where tenant_id = ${shop.tenant_id} for update`
      locked.resolve()
      await release.promise
    })
    await locked.promise
    const id = await agree(world, correction(shop, -5))
    try {
      await agreed(world, correction(other, 5))
      const { error } = await eventually(async () => {
        const proposal = await readProposal(id)
        expect(proposal).toMatchObject({ state: 'confirmed', error: expect.stringContaining('lock timeout') })
        return proposal
      })
      expect((await runLedger(world, 'list', '--state', 'confirmed')).stdout).toContain(error)
    } finally {
      release.resolve()
      await holder
    }
    expect(await awaitState(id, 'done')).toMatchObject({ error: null, refused: null })
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 995, reserved: 0 })
  })

  test('requires an operator and an existing tenant and payout', async ({ world }) => {
    const shop = await clientWithBalance(world, 100)
    const owner = await signedInAs(world, { role: 'owner' })
    const { id } = await proposeAs(ada, correction(shop, 1))
    for (const { status } of [
      await owner.get('/api/ops/proposals'),
      await owner.post('/api/ops/proposals', correction(shop, 1)),
      await confirm(owner, id),
      await reject(owner, id),
    ])
      expect(status).toBe(403)
    for (const proposal of [
      { ...correction(shop, 1), tenant_id: newId() },
      failure(shop, newId()),
      failure(world, newId()),
    ])
      expect((await ada.post('/api/ops/proposals', proposal)).status).toBe(404)
    for (const proposal of [{ ...correction(shop, 0) }, { ...correction(shop, 1.5) }, { kind: 'gift' }])
      expect((await ada.post('/api/ops/proposals', proposal)).status).toBe(400)
    expect((await confirm(ada, newId())).status).toBe(404)
    expect((await reject(bob, id)).status).toBe(200)
  })

  test('requires two operators, which the database checks too', async ({ world }) => {
    const shop = await world.clientOf()
    const { id } = await proposeAs(ada, correction(shop, 1))
    const dashboard = connectDatabase(urlAs('dashboard', world.config.DATABASE_URL!), {
      max: 1,
      application_name: 'test-dashboard',
    })
    try {
      await expect(dashboard`
        update proposals set decision = 'confirmed', decided_by_id = proposed_by_id, decided_by = proposed_by,
          decided_at = now() where id = ${id}`).rejects.toThrow('proposals_need_two')
      await expect(dashboard`update proposals set amount_minor = 5 where id = ${id}`).rejects.toThrow(
        'permission denied',
      )
    } finally {
      await dashboard.end()
    }
  })

  test('is refused while 100 proposals are undecided', async ({ world }) => {
    const shop = await world.clientOf()
    const { id } = await proposeAs(ada, correction(shop, 1))
    await world.sql`
      insert into proposals (id, tenant_id, kind, currency, amount_minor, reason, proposed_by_id, proposed_by, expires_at)
      select gen_random_uuid(), tenant_id, kind, currency, amount_minor, 'many', proposed_by_id, proposed_by, expires_at
      from proposals cross join generate_series(1, 100) where id = ${id}`
    const answer = await ada.post('/api/ops/proposals', correction(shop, 1))
    expect([answer.status, answer.body.error.code]).toEqual([429, 'rate_limited'])
    await world.sql`delete from proposals where reason = 'many'`
    const page = (await ada.get('/api/ops/proposals?limit=2')).body
    expect(page).toHaveLength(2)
    const next = (await ada.get(`/api/ops/proposals?limit=2&before=${page[1].id}`)).body
    expect(next.map((each: any) => each.id)).not.toContain(page[1].id)
  })
})

describe('a forced failure of a payout', () => {
  const listDrifts = async (shop: Client): Promise<any[]> => (await shop.get('/v1/reconciliation')).body
  const reconcile = async (world: World, id: string): Promise<boolean> => {
    const requested = await lookUpAfterMonth(world, 'payout', id)
    await world.drain()
    return requested
  }

  test('frees the amount at once and opens a drift, and a later payment by the processor is posted', async ({
    world,
  }) => {
    const shop = await clientWithBalance(world, 100)
    const to = await recipient(shop, 'ba_manual')
    const { body: payout } = await payOut(shop, to, {}, WAIT)
    const requested = await shop.post(`/v1/payouts/${payout.id}/fail`, { reason: 'never arrived' })
    expect(requested.status).toBe(202)
    const { id } = await proposeAs(ada, failure(shop, payout.id))
    const duplicate = await bob.post('/api/ops/proposals', failure(shop, payout.id))
    expect([duplicate.status, duplicate.body.error.code]).toEqual([409, 'conflict'])
    expect((await confirm(bob, id)).status).toBe(200)
    await awaitState(id, 'done')
    expect((await shop.get(`/v1/payouts/${payout.id}`)).body).toMatchObject({
      status: 'failed',
      failure: { code: 'failed_manually', message: 'the bank lost it', manual: true },
    })
    expect(await listDrifts(shop)).toMatchObject([
      {
        subject_id: payout.id,
        state: 'differs',
        ours: { status: 'failed' },
        theirs: { status: 'processing' },
      },
    ])
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 100, reserved: 0 })
    // A second payout uses the freed amount.
    expect((await payOut(shop, await recipient(shop), {}, WAIT)).status).toBe(201)
    await settle(world, payout.processor_reference, 'paid')
    await eventually(async () =>
      expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: -100, reserved: 0 }),
    )
    await eventually(async () =>
      expect(await listDrifts(shop)).toMatchObject([
        {
          detail: 'the payout has failed here, but the processor has paid it',
          theirs: { status: 'paid' },
        },
      ]),
    )
    expect(await payoutSummary(world, payout.id)).toMatchObject({
      payout: { status: 'failed', processor_status: 'paid', failure: 'failed_manually' },
      postings: ['payout_paid -100'],
      events: ['created', 'failed', 'processing'],
    })
    await settle(world, payout.processor_reference, 'failed')
    await eventually(async () => expect(await listDrifts(shop)).toEqual([]))
    // The returned amount is posted before the drift is closed.
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 0, reserved: 0 })
  })

  test('is looked up until the payout is final at the processor', async ({ world }) => {
    const shop = await clientWithBalance(world, 1000)
    const { body } = await payOut(shop, await recipient(shop, 'ba_manual'), {}, WAIT)
    await agreed(world, failure(shop, body.id))
    expect(await reconcile(world, body.id)).toBe(true)
    expect(await listDrifts(shop)).toMatchObject([{ theirs: { status: 'processing' } }])
    await settle(world, body.processor_reference, 'failed')
    await reconcile(world, body.id)
    await eventually(async () => expect(await listDrifts(shop)).toEqual([]))
    expect(await reconcile(world, body.id)).toBe(false)
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 1000, reserved: 0 })
  })

  test('during the call of the payout has a drift until the outcome of the call is known', async ({
    world,
  }) => {
    const shop = await clientWithBalance(world, 200)
    const failDuringCall = async (destination: string) => {
      const to = await recipient(shop, destination)
      const hold = await fault(world, {
        match: { method: 'POST', path: '/v1/transfers$' },
        fault: { hold: destination === 'acct_success' ? 'after' : 'before' },
      })
      const { body } = await payOut(shop, to)
      await hold.hit()
      await agreed(world, failure(shop, body.id))
      expect((await listDrifts(shop)).filter((each) => each.subject_id === body.id)).toMatchObject([
        { state: 'differs', ours: { status: 'failed' }, theirs: null },
      ])
      return { id: body.id, release: () => hold.release() }
    }
    const { id: paid, ...sent } = await failDuringCall('acct_success')
    await sent.release()
    const { id: refused, ...unsent } = await failDuringCall('acct_refused')
    // The write that closes the drift is lost, and the settlement is lost with it.
    const condition = `new.subject_id = '${refused}' and new.resolved_at is not null`
    const expectWriteLost = await loseFirstWrite(world.sql, 'update', 'drifts', condition)
    await unsent.release()
    // Two lookups long after the call settle the payout instead.
    for (const interval of ['11 minutes', '1 minute'])
      await eventually(async () => {
        const updated = await world.sql`
          update jobs set first_sent_at = first_sent_at - ${interval}::interval, run_at = now(), wakeup_sent_at = null,
            last_sent_at = last_sent_at - ${interval}::interval, created_at = created_at - ${interval}::interval,
            absent_since = absent_since - ${interval}::interval
          where resource_id = ${refused} and state = 'unknown' and (absent_since is null) = ${interval === '11 minutes'}
          returning id`
        expect(updated).toHaveLength(1)
      })
    await eventually(async () =>
      expect(await listDrifts(shop)).toMatchObject([{ subject_id: paid, theirs: { status: 'paid' } }]),
    )
    await expectWriteLost()
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 100, reserved: 0 })
    expect((await payoutSummary(world, refused)).events).toEqual(['created', 'failed'])
  })

  test('and a payment by the processor at the same time open a drift', async ({ world }) => {
    const shop = await clientWithBalance(world, 1000)
    const { body } = await payOut(shop, await recipient(shop, 'ba_manual'), {}, WAIT)
    const { id, processor_reference } = body
    // Both statements wait for the lock of the row: first the statement of the failure, then that of the settlement.
    const proposal_id = await world.sql.begin(async (tx) => {
      // This lock permits the foreign key check of the proposal.
      await tx`select from payouts where id = ${id} for no key update`
      const proposed_id = await agree(world, failure(shop, id))
      await waitingForLocks(world.sql, 1)
      await settle(world, processor_reference, 'paid')
      await waitingForLocks(world.sql, 2)
      return proposed_id
    })
    await awaitState(proposal_id, 'done')
    await eventually(async () =>
      expect(await listDrifts(shop)).toMatchObject([
        { subject_id: id, ours: { status: 'failed' }, theirs: { status: 'paid' } },
      ]),
    )
    expect(await accountOf(world, shop.tenant_id)).toEqual({ balance: 900, reserved: 0 })
  })

  test('of an unsent payout has no drift, and is refused for a final payout', async ({ world }) => {
    const shop = await clientWithBalance(world, 1000)
    await pauseJobs(world.sql, { queue: 'payouts' })
    const { body: waiting } = await payOut(shop, await recipient(shop))
    const proposal = await runLedger(
      world,
      'fail-payout',
      waiting.id,
      '--reason',
      'asked twice',
      '--by',
      ada.email,
    )
    expect(proposal.stdout).toContain('fail payout')
    const id = /^\S+/.exec(proposal.stdout)![0]
    expect((await confirm(bob, id)).status).toBe(200)
    await awaitState(id, 'done')
    await resumeJobs(world.sql, { queue: 'payouts' })
    await world.drain()
    expect(await listDrifts(shop)).toEqual([])
    expect((await payoutSummary(world, waiting.id)).events).toEqual(['created', 'failed'])

    const { body: paid } = await payOut(shop, await recipient(shop, 'ba_manual'), {}, WAIT)
    const late = await proposeAs(ada, failure(shop, paid.id))
    await settle(world, paid.processor_reference, 'paid')
    await payoutIn(shop, paid.id, 'paid')
    expect((await confirm(bob, late.id)).status).toBe(200)
    expect(await awaitState(late.id, 'refused')).toMatchObject({
      refused: 'The payout has become final in the meantime.',
    })
    expect((await ada.post('/api/ops/proposals', failure(shop, paid.id))).status).toBe(409)
  })
})

test('the books balance and agree with the processor after all tests', async ({ world }) => {
  await world.drain()
  await checkInvariants(world)
})
