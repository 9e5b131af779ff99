// The health of all providers and of their operations, as this worker sees it.
import type { Log } from '#core/log.ts'
import { createProviderHealth, type CallHealth } from './provider-health.ts'

/** A provider's health, and the health of each of its operations. */
type ProviderState = { whole: CallHealth; operations: Map<string, CallHealth> }
/** `operation` null: the whole provider. */
type ProviderTarget = { provider: string; operation: string | null; health: CallHealth }

export type ProviderStates = {
  whole(provider: string): CallHealth
  operation(provider: string, operation: string): CallHealth
  /** Records that the provider answered this operation. */
  answer(provider: string, operation: string): void
  all(): ProviderTarget[]
}

export function createProviderStates(log: Log): ProviderStates {
  const providers = new Map<string, ProviderState>()

  function stateOf(provider: string): ProviderState {
    const state = providers.get(provider) ?? {
      whole: createProviderHealth(provider, null, log),
      operations: new Map<string, CallHealth>(),
    }
    providers.set(provider, state)
    return state
  }

  return {
    whole: (provider) => stateOf(provider).whole,
    operation(provider, operation) {
      const { operations } = stateOf(provider)
      const health = operations.get(operation) ?? createProviderHealth(provider, operation, log)
      operations.set(operation, health)
      return health
    },
    answer(provider, operation) {
      const { whole, operations } = stateOf(provider)
      whole.answer()
      for (const [name, health] of operations)
        if (name === operation) health.answer()
        else health.answerOther()
    },
    all: () =>
      [...providers].flatMap(([provider, { whole, operations }]) => [
        { provider, operation: null, health: whole },
        ...Array.from(operations, ([operation, health]) => ({ provider, operation, health })),
      ]),
  }
}
