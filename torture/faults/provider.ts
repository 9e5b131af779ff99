// The processor: answers that are lost, cut, late or errors, before and after what was asked for was done.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'

const KINDS: [name: string, about: string, fault: string | object][] = [
  ['provider-lost', 'its answers are lost, and what was asked for is done', 'drop_after'],
  ['provider-dropped', 'its connections break before anything is done', 'drop_before'],
  ['provider-500', 'it answers 500, and what was asked for is done', 'error_500_after'],
  ['provider-cut', 'its answers break off in the middle', 'cut_body'],
  ['provider-409', 'it answers 409', 'conflict_409'],
  ['provider-429', 'it answers 429', 'rate_limited_429'],
  ['provider-html', 'it answers 503 with a page of HTML', 'html_503'],
  ['provider-slow', 'its answers take 1.5 s', { delay_ms: 1500 }],
]

export const PROVIDER_FAULTS: Fault[] = [
  ...KINDS.map(([name, about, fault]): Fault => ({
    name,
    about: `a third of the processor's answers: ${about}`,
    takes_ms: 3300,
    bar_ms: 10_000,
    inflict: (system, random) => script(system, random, fault),
  })),
  {
    name: 'provider-reset',
    about: 'the connections to the processor are cut',
    takes_ms: 2000,
    bar_ms: 10_000,
    async inflict({ wires }, random) {
      for (let times = 0; times < 5; times++) {
        wires.provider('stripe').cut()
        await sleep(random.between(100, 500))
      }
    },
  },
]

/** A little of everything, all the time. */
export async function alwaysSome({ provider }: System, random: Random): Promise<void> {
  const stripe = provider('stripe')
  const faults = [
    'drop_after',
    'drop_before',
    'error_500_after',
    'cut_body',
    'conflict_409',
    'rate_limited_429',
  ]
  for (const fault of faults) {
    const chance = { probability: 0.003, seed: random.between(1, 1e9) }
    await stripe.fault({ match: { method: 'POST', path: '^/v1/' }, ...chance, fault })
  }
  const chance = { probability: 0.05, seed: random.between(1, 1e9) }
  await stripe.fault({ ...chance, fault: { delay_ms: random.between(20, 300) } })
}

async function script({ provider }: System, random: Random, fault: string | object): Promise<void> {
  const scripted = await provider('stripe').fault({
    match: { method: 'POST', path: '^/v1/' },
    probability: 0.33,
    seed: random.between(1, 1e9),
    fault,
  })
  try {
    await scripted.hit(1, 10_000)
    await sleep(random.between(2000, 4000))
  } finally {
    await scripted.remove()
  }
}
