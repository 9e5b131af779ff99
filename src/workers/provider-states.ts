// The health of all providers and of their operations, as this worker sees it.
import type { Config } from '#core/config.ts'
import type { Log } from '#core/log.ts'
import { createProviderHealth, type CallHealth } from './provider-health.ts'

/** The health of a provider's calls together, and of those of each operation. */
type ProviderState = { health: CallHealth; operations: Map<string, CallHealth> }
/** `operation` null: all calls of the provider. */
type NamedHealth = { provider: string; operation: string | null; health: CallHealth }

export type ProviderStates = {
  ofProvider(provider: string): CallHealth
  ofOperation(provider: string, operation: string): CallHealth
  /** Records that the provider answered this operation. */
  answer(provider: string, operation: string): void
  all(): NamedHealth[]
}

export function createProviderStates(context: { log: Log; config: Config }): ProviderStates {
  const providers = new Map<string, ProviderState>()

  function stateOf(provider: string): ProviderState {
    const state = providers.get(provider) ?? {
      health: createProviderHealth(provider, null, context),
      operations: new Map<string, CallHealth>(),
    }
    providers.set(provider, state)
    return state
  }

  return {
    ofProvider: (provider) => stateOf(provider).health,
    ofOperation(provider, operation) {
      const { operations } = stateOf(provider)
      const health = operations.get(operation) ?? createProviderHealth(provider, operation, context)
      operations.set(operation, health)
      return health
    },
    answer(provider, operation) {
      const { health, operations } = stateOf(provider)
      health.answer()
      for (const [name, of_operation] of operations)
        if (name === operation) of_operation.answer()
        else of_operation.answerOther()
    },
    all: () =>
      [...providers].flatMap(([provider, { health, operations }]) => [
        { provider, operation: null, health },
        ...Array.from(operations, ([operation, of_operation]) => ({
          provider,
          operation,
          health: of_operation,
        })),
      ]),
  }
}
