// Which protections against a database that goes back in time are off.
import type { Config } from '#core/config.ts'

/**
 * A sentence for each protection that the configuration of this process does not turn on, and for each of the problems
 * of witnesses.
 */
export function protectionsOff(
  { REDIS_URL, WITNESS_URL, SYNCHRONOUS_STANDBY }: Config,
  witness_problems: readonly string[],
): string[] {
  return [
    ...witness_problems.map((problem) => `a witness cannot be used: ${problem}`),
    ...(REDIS_URL === undefined && WITNESS_URL === undefined
      ? ['without REDIS_URL or WITNESS_URL, only running processes notice that a copy of the files is older']
      : []),
    ...(REDIS_URL !== undefined && WITNESS_URL === undefined
      ? ['without WITNESS_URL, a loss of Redis together with the database hides that the database is older']
      : []),
    ...(SYNCHRONOUS_STANDBY
      ? []
      : ['without SYNCHRONOUS_STANDBY, a promoted standby may lack what was committed last']),
  ]
}
