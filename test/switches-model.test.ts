// The model of switches of the database: with all rules nothing can go wrong, and without any of them something can.
import { expect, test } from 'vitest'
import { explore } from './models/explore.ts'
import { RULES, type Rule, type Scenario } from './models/rules.ts'
import { modelOf } from './models/switches.ts'

const SCENARIOS = {
  payout: { kinds: ['payout'], rewinds: 1, faulty_generations: 1 },
  payout_twice: { kinds: ['payout'], rewinds: 2, faulty_generations: 0 },
  two_payouts: { kinds: ['payout', 'payout'], rewinds: 1, faulty_generations: 0 },
  promotion: { kinds: ['payout'], rewinds: 1, faulty_generations: 0, promotion: true },
  top_up: { kinds: ['top_up'], rewinds: 1, faulty_generations: 1 },
  top_up_twice: { kinds: ['top_up'], rewinds: 2, faulty_generations: 0 },
  email: { kinds: ['email'], rewinds: 2, faulty_generations: 0 },
  scheduled_email: { kinds: ['email'], rewinds: 1, faulty_generations: 0, scheduled: true },
} as const satisfies Record<string, Scenario>

type Broken = {
  in: keyof typeof SCENARIOS
  /** Rules that must be broken too: each of them alone also prevents this. */
  with?: Rule[]
  /** Clients do not repeat their requests. */
  once?: true
  problem: string
}

/** What happens without each rule. */
const BROKEN: Record<Rule, Broken> = {
  derived_ids: { in: 'top_up', problem: 'top_up 1 happened twice' },
  witness: { in: 'payout', problem: 'payout 1 is canceled here and happened at the provider' },
  claims_notice: { in: 'top_up', problem: 'top_up 1 happened twice' },
  accepts_notice: { in: 'payout', problem: 'payout 1 is canceled here and happened at the provider' },
  newest_before_start: { in: 'payout', problem: 'payout 1 is canceled here and happened at the provider' },
  counts_as_sent: { in: 'email', problem: 'an email that a client had canceled was sent before the release' },
  from_creation: { in: 'top_up', problem: 'top_up 1 happened twice' },
  sent_until_switch: { in: 'top_up', problem: 'top_up 1 happened twice' },
  leases_end: { in: 'payout', problem: 'payout 1 is canceled here and happened at the provider' },
  looked_up_first: {
    in: 'top_up',
    with: ['creations_wait_early'],
    once: true,
    problem: 'top_up 1 happened twice',
  },
  payouts_looked_up: { in: 'two_payouts', problem: 'a payout was sent that its account does not cover' },
  cancel_counts_as_sent: { in: 'email', problem: 'email 1 is canceled here and happened at the provider' },
  cancel_waits: { in: 'payout', problem: 'payout 1 is canceled here and happened at the provider' },
  parked_count_as_sent: {
    in: 'payout',
    with: ['cancel_waits'],
    once: true,
    problem: 'payout 1 is canceled here and happened at the provider',
  },
  payouts_wait: { in: 'payout', problem: 'payout 1 happened twice' },
  creations_wait: { in: 'top_up', problem: 'top_up 1 happened twice' },
  creations_wait_early: { in: 'top_up', problem: 'top_up 1 happened twice' },
  rows_recovered: { in: 'top_up', problem: 'top_up 1 happened twice' },
  open_rows_settled: { in: 'top_up', problem: 'top_up 1 happened twice' },
  lists_wait: { in: 'top_up', problem: 'top_up 1 happened twice' },
  oldest_unread: { in: 'payout_twice', problem: 'payout 1 is canceled here and happened at the provider' },
  judged_again: { in: 'two_payouts', problem: 'a payout was sent that its account does not cover' },
  refusals_wait: { in: 'two_payouts', problem: 'payout 1 was refused, and happened' },
  restore_paused: { in: 'payout', problem: 'a call was made after a restore and before the release' },
  messages_wait: {
    in: 'scheduled_email',
    problem: 'an email that a client had canceled was sent before the release',
  },
  lost_messages_wait: { in: 'email', problem: 'email 1 is canceled here and happened at the provider' },
  mark: { in: 'promotion', problem: 'payout 1 is canceled here and happened at the provider' },
}

for (const [name, scenario] of Object.entries(SCENARIOS))
  test(`with all rules nothing goes wrong in any state of ${name.replaceAll('_', ' ')}`, () => {
    const { states, steps, counterexample } = explore(modelOf(scenario))
    console.log(`${name}: ${states} states, ${steps} steps`)
    expect(counterexample).toBeUndefined()
  })

for (const [rule, text] of Object.entries(RULES) as [Rule, string][])
  test(`without this rule the model finds a counterexample: ${text}`, () => {
    const { in: name, with: others = [], once, problem } = BROKEN[rule]
    const scenario: Scenario = { ...SCENARIOS[name], repeats: once !== true }
    const without_others = others.length > 0 ? explore(modelOf({ ...scenario, broken: others })) : undefined
    expect(without_others?.counterexample).toBeUndefined()
    const { counterexample } = explore(modelOf({ ...scenario, broken: [rule, ...others] }))
    expect(counterexample?.problem).toBe(problem)
    console.log(`without ${rule}: ${counterexample!.problem}\n  ${counterexample!.trace.join('\n  ')}`)
  })
