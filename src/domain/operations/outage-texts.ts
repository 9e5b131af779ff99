// What an outage of a provider means: its problem, its text, and the variables to check.
import { z } from 'zod'
import { operationTitle, PAYOUTS, PROVIDER_FACTS } from '#core/config/providers.ts'
import type { Outcome } from '#core/outcome.ts'

/** The outcomes of a failed call, and `late`: the call is still open after too long. */
export const CALL_FAILURES = ['retry', 'ambiguous', 'misconfigured', 'late'] as const satisfies readonly (
  | Outcome<unknown>['kind']
  | 'late'
)[]
export type CallFailure = (typeof CALL_FAILURES)[number]

/** The problem of a provider with an outage. */
const outageProblem = z.enum(['credentials', 'no_answer']).meta({
  description:
    '`credentials`: it refuses our credentials, or a worker lacks them. `no_answer`: no call gets a usable answer.',
  example: 'no_answer',
})
export type OutageProblem = z.output<typeof outageProblem>

/** The problem that an outcome indicates. */
export function problemOf(outcome: CallFailure): OutageProblem {
  return outcome === 'misconfigured' ? 'credentials' : 'no_answer'
}

/** The variables to check after an outcome of a provider's calls. */
export function variablesToCheck(provider: string, outcome: CallFailure): readonly string[] {
  return (
    PROVIDER_FACTS[provider]?.check[problemOf(outcome) === 'credentials' ? 'credentials' : 'address'] ?? []
  )
}

/**
 * The end of a log line about an outcome of a provider's calls: what to check. It names the variables of an address
 * only if they are set in `config`. Empty if the provider is not known.
 */
export function adviceText(
  provider: string,
  outcome: CallFailure,
  config: Readonly<Record<string, unknown>>,
): string {
  const variables = variablesToCheck(provider, outcome)
  if (variables.length === 0) return ''
  if (problemOf(outcome) === 'credentials') return `: check ${variables.join(' and ')}`
  const set = variables.filter((name) => config[name] !== undefined)
  return `: check ${set.map((name) => `${name}, and `).join('')}the network, name servers and firewall of the workers`
}

const LIST_FORMAT = new Intl.ListFormat('en', { type: 'conjunction' })

/**
 * "The email server does not answer", "The provider does not answer SMS", "The provider refuses our credentials for
 * SMS". `operations`: the operations without answers; empty: all. `ended`: "The provider answers SMS again".
 */
export function outageText(
  provider: string,
  problem: OutageProblem | 'ended',
  operations: readonly string[],
): string {
  const title = PROVIDER_FACTS[provider]?.title ?? provider
  const named = operations.length === 0 ? '' : ` ${LIST_FORMAT.format(operations.map(operationTitle))}`
  if (problem === 'ended') return `${title} answers${named} again`
  if (problem === 'no_answer') return `${title} does not answer${named}`
  return `${title} refuses our credentials${named === '' ? '' : ` for${named}`}`
}

/** An example for the documentation. */
export const OUTAGE_EXAMPLE = outageText(PAYOUTS.provider, 'no_answer', ['payout'])

/** The fields of an outage in answers. */
export const outageFields = {
  problem: outageProblem,
  text: z.string().meta({
    description: 'What is out, for people. It names the operations if others are answered.',
    example: OUTAGE_EXAMPLE,
  }),
  operations: z.array(z.string()).meta({
    description: 'The operations without answers; empty: all.',
    example: ['payout'],
  }),
}
