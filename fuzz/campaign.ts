// Runs rounds of properties: one property for each operation of the OpenAPI document, and the properties of
// notifications, endless requests, scenarios and floods.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Arbitrary, array, asyncProperty, check, constant, constantFrom } from 'fast-check'
import { routesOf, type DocumentedRoute } from '#test/documentation.ts'
import type { RawAnswer } from '#test/raw.ts'
import { problemsWith } from './checks.ts'
import { flood, FLOODS } from './floods.ts'
import { emailNotifier } from './notifications/email.ts'
import { isForged, signed, unsigned, type Notice, type Notifier } from './notifications/notice.ts'
import { stripeNotifier } from './notifications/stripe.ts'
import { twilioNotifier } from './notifications/twilio.ts'
import { requestsFor } from './requests.ts'
import type { ScenarioResult } from './scenarios/recording-client.ts'
import { runScenario, scenariosOf } from './scenarios/live.ts'
import { SCENARIO_RESOURCES } from './scenarios/resources.ts'
import { runPaymentScenario, paymentScenarios } from './scenarios/payments.ts'
import type { Target } from './target.ts'
import { asCommand, send, type Sent } from './wire.ts'

export type Finding = {
  property: string
  seed: number
  /** The path with which fast-check replays the shrunk case directly. */
  path: string
  problems: string[]
  /** A shell command that reproduces the finding. */
  command: string
}

/** The progress of a property so far. */
export type Tally = { property: string; requests: number; statuses: Map<number, number> }

const NOTIFIERS = [stripeNotifier, twilioNotifier, emailNotifier]

type Property = {
  name: string
  /** The number of cases per round, as a multiple of the number for a route. */
  share: number
  cases: Arbitrary<any>
  holds: (value: any) => Promise<void>
}

/** A round with this many cases per route sends all requests of a flood. A smaller round sends a share of them. */
const RUNS_OF_FULL_FLOODS = 40

const FLOOD = 'a flood of '

class PropertyError extends Error {
  readonly problems: string[]
  readonly command: string
  constructor(problems: string[], command: string) {
    super(problems.join('; '))
    this.problems = problems
    this.command = command
  }
}

export function newTally(): Tally {
  return { property: '', requests: 0, statuses: new Map() }
}

/** The names of all properties of a target. */
export function propertiesOf(target: Target): string[] {
  return allProperties(target, newTally()).map(({ name }) => name)
}

/**
 * Runs one round: checks every property whose name contains `only`, with `runs` cases per route. Returns the first
 * finding, or null. The same seed creates the same cases. `floods` false: skips floods. `path` selects one case.
 */
export async function runRound(
  target: Target,
  tally: Tally,
  {
    seed,
    runs,
    only = '',
    floods = true,
    path,
    until_ms = Infinity,
  }: {
    seed: number
    runs: number
    only?: string
    floods?: boolean
    path?: string | undefined
    until_ms?: number
  },
): Promise<Finding | null> {
  for (const { name, share, cases, holds } of allProperties(target, tally, runs)) {
    if (!name.toLowerCase().includes(only.toLowerCase())) continue
    if (!floods && name.startsWith(FLOOD)) continue
    tally.property = name
    const left_ms = until_ms - performance.now()
    if (left_ms <= 0) return null
    const result = await check(asyncProperty(cases, holds), {
      seed,
      numRuns: Math.max(1, Math.ceil(runs * share)),
      ...(path !== undefined && { path }),
      // A flood is not interrupted: it would continue to send requests while the system is being closed.
      ...(left_ms < 1e9 && share > 0 && { interruptAfterTimeLimit: left_ms }),
    })
    if (!result.failed || result.counterexamplePath === null) continue
    const error = result.errorInstance
    const failure =
      error instanceof PropertyError
        ? error
        : new PropertyError([String((error as Error)?.stack ?? error)], '')
    return {
      property: name,
      seed,
      path: result.counterexamplePath,
      problems: failure.problems,
      command: failure.command,
    }
  }
  tally.property = 'books and logs'
  const problems = await target.problems()
  return problems.length === 0 ? null : { property: only, seed, path: '', problems, command: '' }
}

function allProperties(target: Target, tally: Tally, runs = RUNS_OF_FULL_FLOODS): Property[] {
  const routes = routesOf(target.document)
  const requests = new Map(routes.map((route) => [route, requestsFor(target.document, route)]))
  const ofRoutes = routes.map((route) => ({
    name: `${route.method} ${route.path}`,
    share: 1,
    cases: requests.get(route)!,
    holds: async (sent: Sent) => await checkRequest(target, tally, route, sent),
  }))
  const endless = constantFrom(
    ...routes.filter(({ operation }) => operation.requestBody !== undefined),
  ).chain((route) =>
    requests.get(route)!.map((sent) => ({ route, sent: { ...sent, framing: 'endless' as const } })),
  )
  return [
    ...ofRoutes,
    ...(target.short_timeout
      ? [
          {
            name: 'requests without an end',
            share: 0.1,
            cases: array(endless, { minLength: 1, maxLength: 8, size: 'max' }),
            holds: async (all: { route: DocumentedRoute; sent: Sent }[]) => {
              await checkEndless(target, tally, all)
            },
          },
        ]
      : []),
    ...NOTIFIERS.flatMap((notifier) => {
      const secret = target.webhooks?.secrets[notifier.name]
      if (secret === undefined) return []
      const host = { url: target.webhooks!.url, secret }
      const holds = async (notice: Notice) => await checkNotice(target, notifier, host, tally, notice)
      return [{ name: `POST /${notifier.name}`, share: 2, cases: notifier.cases, holds }]
    }),
    scenario('payments', 0.5, paymentScenarios, (each) => runPaymentScenario(target, each)),
    ...SCENARIO_RESOURCES.map((resource) =>
      scenario(resource.name, 0.25, scenariosOf(resource), (each) => runScenario(target, resource, each)),
    ),
    ...FLOODS.map((each) => ({
      name: `${FLOOD}${each.name}`,
      share: 0,
      cases: constant(Math.min(1, runs / RUNS_OF_FULL_FLOODS)),
      holds: async (part: number) => {
        const { problems, commands, statuses } = await flood(target, each, part)
        tally.requests += statuses.length
        for (const status of statuses) tally.statuses.set(status, (tally.statuses.get(status) ?? 0) + 1)
        if (problems.length > 0) throw new PropertyError(problems, commands.join('\n'))
      },
    })),
  ]

  function scenario<T>(
    name: string,
    share: number,
    cases: Arbitrary<T>,
    run: (scenario: T) => Promise<ScenarioResult>,
  ): Property {
    const holds = async (each: T): Promise<void> => {
      const { problems, commands } = await run(each)
      tally.requests += commands.length
      if (problems.length > 0) throw new PropertyError(problems, commands.join('\n'))
    }
    return { name: `scenarios of ${name}`, share, cases, holds }
  }
}

async function checkRequest(
  target: Target,
  tally: Tally,
  route: DocumentedRoute,
  written: Sent,
): Promise<void> {
  const sent = await target.fillPlaceholders(written)
  const before = await target.stored()
  const answer = await answered(target.url, sent, tally)
  const after = await target.stored()
  if (answer.status < 400 && sent.method !== 'GET') target.onAccepted(sent)
  const problems = problemsWith(target, route, { sent, answer, before, after })
  if (problems.length > 0) throw failure(problems, answer, target.url, sent)
}

/** Sends all requests at once. Each request keeps its connection until the server closes it. */
async function checkEndless(
  target: Target,
  tally: Tally,
  all: { route: DocumentedRoute; sent: Sent }[],
): Promise<void> {
  const sent: Sent[] = []
  for (const each of all) sent.push(await target.fillPlaceholders(each.sent))
  const before = await target.stored()
  const answers = await Promise.all(sent.map((each) => answered(target.url, each, tally)))
  const after = await target.stored()
  for (const [index, answer] of answers.entries()) {
    const { route } = all[index]!
    const problems = problemsWith(target, route, { sent: sent[index]!, answer, before, after })
    if (answer.status < 400) problems.push('a request without an end was accepted')
    if (problems.length > 0) throw failure(problems, answer, target.url, sent[index]!)
  }
}

/**
 * A refused notification is not stored and changes nothing. An accepted notification changes nothing that its
 * provider does not confirm, unless it is genuine and notifications of that provider are trusted.
 */
async function checkNotice(
  target: Target,
  notifier: Notifier,
  host: { url: string; secret: string },
  tally: Tally,
  notice: Notice,
): Promise<void> {
  const filled = await target.fillPlaceholders(unsigned(notifier, notice))
  const sent = signed(notifier, filled, notice.signature, host)
  const [before, count_before] = [await target.stored(), await target.notifications()]
  const answer = await answered(host.url, sent, tally)
  const [after, count_after] = [await target.stored(), await target.notifications()]
  const { status, body, text } = answer
  const { code = '', message = '' } = body?.error ?? {}
  // Twilio gets an XML answer.
  const acknowledged = body?.received === true || text.includes('<Response')
  const explained = status < 400 ? acknowledged : /^[a-z_]+$/.test(code) && /\w/.test(message)
  const problems = explained ? [] : ['the answer does not show whether the notification was accepted']
  if (status >= 500 || status === 0) problems.push(`a notification was answered with ${status}`)
  if (status < 400 && isForged(notice.signature)) problems.push('a forged notification was accepted')
  if (status >= 400 && count_after !== count_before) problems.push('a refused notification was stored')
  if (after !== before && (status >= 400 || !notifier.trusted))
    problems.push('a notification changed stored data although the provider does not confirm the change')
  if (problems.length > 0) throw failure(problems, answer, host.url, sent)
}

/** A 429 does not depend on the request, so the request is sent again. */
async function answered(url: string, sent: Sent, tally: Tally): Promise<RawAnswer> {
  for (let retries = 0; ; retries++) {
    const answer = await send(url, sent)
    tally.requests += 1
    tally.statuses.set(answer.status, (tally.statuses.get(answer.status) ?? 0) + 1)
    const code: unknown = answer.body?.error?.code
    if ((code !== 'rate_limited' && code !== 'overloaded') || retries === 50) return answer
    await sleep(100 * Math.min(10, retries + 1))
  }
}

function failure(problems: string[], { status, text }: RawAnswer, url: string, sent: Sent): PropertyError {
  const answer = `answer: ${status} ${text.length > 2000 ? `${text.slice(0, 2000)}...` : text}`
  return new PropertyError([...problems, answer], asCommand(url, sent))
}
