// Test tokens of accounts and bank accounts: their names select behaviors.

/**
 * The behavior that the name of a test token selects: `noAccount` for `ba_noAccount`. `fallback`: the behavior of other
 * tokens.
 */
export function behaviorOf<T extends string>(
  behaviors: Record<T, unknown>,
  id: string,
  fallback: NoInfer<T>,
): T {
  const name = id.slice(id.indexOf('_') + 1)
  return Object.hasOwn(behaviors, name) ? (name as T) : fallback
}
