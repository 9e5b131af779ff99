// Provider faults: lost, incomplete, late and failed answers, before and after the effect.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fault as ScriptedFault, ProviderName } from '#test/providers.ts'
import type { Random } from '../random.ts'
import type { System } from '../system.ts'
import type { Fault } from './fault.ts'
import { capturePayment } from './requests.ts'

/** Phases of an SMTP session. The message is accepted only after the last phase. */
const EMAIL_PHASES = ['MAIL', 'RCPT', 'DATA', 'DOT'] as const
/** Providers with an HTTP API. */
const HTTP_PROVIDERS = [
  ['stripe', '^/v1/'],
  ['twilio', '/Messages'],
] as const

type Script = string | object

/**
 * For each failure: the fault at HTTP providers, and the fault at the SMTP server with the phases in which it
 * happens.
 */
const FAILURES: [name: string, about: string, fault: Script, email: Script, phases: readonly string[]][] = [
  ['provider-lost', 'answers are lost after the effect', 'drop_after', 'drop_after', ['DOT']],
  ['provider-dropped', 'connections break before the effect', 'drop_before', 'drop_before', EMAIL_PHASES],
  [
    'provider-500',
    'status 500 after the effect; email is deferred',
    'error_500_after',
    'error_500_before',
    EMAIL_PHASES,
  ],
  ['provider-cut', 'answers break off in the middle', 'cut_body', 'cut_body', ['DOT']],
  ['provider-409', 'status 409', 'conflict_409', 'conflict_409', EMAIL_PHASES],
  ['provider-429', 'status 429', 'rate_limited_429', 'rate_limited_429', EMAIL_PHASES],
  [
    'provider-html',
    'status 503 with an HTML page, or an invalid SMTP reply',
    'html_503',
    'string_ok',
    ['DOT'],
  ],
  ['provider-slow', 'answers take 1.5 s', { delay_ms: 1500 }, { delay_ms: 1500 }, EMAIL_PHASES],
]

const PROVIDER_NAMES: ProviderName[] = ['stripe', 'twilio', 'smtp']

export const PROVIDER_FAULTS: Fault[] = [
  ...FAILURES.map(([name, about, fault, email, phases]): Fault => ({
    name,
    about: `a third of the provider calls: ${about}`,
    duration_ms: 3300,
    recovery_limit_ms: 10_000,
    inflict: (system, random) => script(system, random, fault, { fault: email, method: random.pick(phases) }),
  })),
  {
    name: 'event-never-made',
    about: 'the processor makes no event for one change in fifty, nor for a refund in its dashboard',
    duration_ms: 20_000,
    recovery_limit_ms: 10_000,
    minutes: 30,
    inflict: omitEvents,
  },
  {
    name: 'provider-reset',
    about: 'the connections to the providers are cut',
    duration_ms: 2000,
    recovery_limit_ms: 10_000,
    async inflict({ wires }, random) {
      for (let times = 0; times < 5; times++) {
        for (const name of PROVIDER_NAMES) wires.provider(name).cut()
        await sleep(random.between(100, 500))
      }
    },
  },
]

/** Injects each failure at a low rate during the whole run. */
export async function injectBackgroundFaults({ provider }: System, random: Random): Promise<void> {
  const chance = (probability: number) => ({ probability, seed: random.between(1, 1e9) })
  for (const [, , fault, email, phases] of FAILURES) {
    if (typeof fault !== 'string') continue
    for (const [name, path] of HTTP_PROVIDERS)
      await provider(name).fault({ match: { method: 'POST', path }, ...chance(0.003), fault })
    await provider('smtp').fault({ match: { method: random.pick(phases) }, ...chance(0.003), fault: email })
  }
  for (const name of PROVIDER_NAMES)
    await provider(name).fault({ ...chance(0.05), fault: { delay_ms: random.between(20, 300) } })
}

async function omitEvents(system: System, random: Random): Promise<void> {
  const { control } = system.provider('stripe')
  const omit = (omit_percent: number) => control('POST', '/webhooks', { omit_percent })
  const { processor_reference } = await capturePayment(system, `event-never-made-${random.between(0, 1e9)}`)
  try {
    await omit(100)
    await control('POST', '/refunds', { payment_intent: processor_reference, amount: '300' })
    await omit(2)
    await sleep(random.between(10_000, 18_000))
  } finally {
    await omit(0)
  }
}

async function script(
  { provider }: System,
  random: Random,
  fault: Script,
  email: { fault: Script; method: string },
): Promise<void> {
  const chance = () => ({ probability: 0.33, seed: random.between(1, 1e9) })
  const scripted: ScriptedFault[] = []
  try {
    for (const [name, path] of HTTP_PROVIDERS)
      scripted.push(await provider(name).fault({ match: { method: 'POST', path }, ...chance(), fault }))
    const { method } = email
    scripted.push(await provider('smtp').fault({ match: { method }, ...chance(), fault: email.fault }))
    await scripted[0]!.hit(1, 10_000)
    await sleep(random.between(2000, 4000))
  } finally {
    for (const each of scripted) await each.remove()
  }
}
