// The health of providers: the outcomes of their calls, and the calls that are refused, in doubt or unknown.
import { z } from 'zod'
import { PAYMENTS, PROVIDER_FACTS } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import { timestamp } from '#core/time.ts'
import { CALLS } from '#jobs/index.ts'
import { findRetrying, retryingOf } from '../jobs/retrying.ts'
import { countedFields, findCountProgress } from './counted.ts'
import { countField, sumRollups } from './figures.ts'
import { percentilesSchema } from '../rollups/histograms.ts'
import { findOpenJobCounts, findRollups } from './job-names.ts'
import { CALL_FAILURES, outageFields, outageText } from './outage-texts.ts'
import { findFailedCalls, findOutages } from './provider-outages.ts'

const FAILURES = CALL_FAILURES.filter((each) => each !== 'late')

export const providerHealthSchema = z
  .object({
    providers: z.array(
      z.object({
        provider: z.string().meta({ description: 'Its name.', example: PAYMENTS.provider }),
        calls: countField('Finished jobs with a call to it in the last 15 minutes.', 1200),
        done: countField('Calls that took effect.', 1190),
        declined: countField('Calls that it declined.', 10),
        failed: countField('Failed calls in the last 15 minutes; every attempt counts.', 0),
        failures: z
          .array(
            z.object({
              outcome: z.enum(FAILURES).meta({
                description:
                  '`retry`: it certainly had no effect. `ambiguous`: it may have had one. `misconfigured`: our credentials or configuration were refused.',
                example: 'ambiguous',
              }),
              count: countField('The number of failed calls.', 99),
            }),
          )
          .meta({ description: 'Failed calls by outcome, the most frequent first.' }),
        outage: z
          .object({
            ...outageFields,
            since: timestamp.meta({ description: 'Since when.' }),
            check: z.array(z.string()).meta({
              description: 'The variables to check.',
              example: PROVIDER_FACTS[PAYMENTS.provider]!.check.address,
            }),
          })
          .nullable()
          .meta({ description: 'The present outage; null if it answers, or if no call is made.' }),
        retrying: countField(
          'Open jobs with a call to it whose last attempt failed; at most 10,000 of each name.',
          0,
        ),
        oldest_retrying_s: countField(
          'How long the attempts of the oldest retrying job have failed, in seconds.',
          0,
        ),
        retries: countField('Attempts beyond the first.', 2),
        took: percentilesSchema.meta({ description: 'The duration of the last attempt, from claim to end.' }),
        refused: countField('Jobs whose calls are currently refused before they take effect.', 0),
        in_doubt: countField('Jobs with an attempt that may have reached it without an answer.', 0),
        unknown: countField('Jobs with an unknown effect.', 0),
      }),
    ),
    ...countedFields,
  })
  .meta({ id: 'ProviderHealth', description: 'The health of each provider, from its calls.' })
export type ProviderHealth = z.output<typeof providerHealthSchema>

/** The providers that this version calls, with the calls of the last 15 minutes and the open ones. */
export async function findProviderHealth(sql: Sql): Promise<ProviderHealth> {
  const by_provider = Map.groupBy(CALLS, ({ provider }) => provider)
  const counted = findCountProgress(sql)
  const [retried, failed_calls, outages] = await Promise.all([
    findRetrying(sql),
    findFailedCalls(sql),
    findOutages(sql),
  ])
  const providers = await Promise.all(
    Array.from(by_provider, async ([provider, calls]) => {
      const by_queue = Map.groupBy(calls, ({ queue }) => queue)
      const found = await Promise.all(
        Array.from(by_queue, async ([queue, of_queue]) => {
          const of = { queue, names: of_queue.map(({ job }) => job) }
          const [rows, open] = await Promise.all([
            findRollups(sql, { ...of, window: '15m' }),
            findOpenJobCounts(sql, of),
          ])
          return { rows, open: [...open.values()] }
        }),
      )
      const { out, succeeded, declined, retries, run } = sumRollups(found.flatMap(({ rows }) => rows))
      const open = found.flatMap((each) => each.open)
      const now = (stage: 'refused' | 'in_doubt' | 'unknown') =>
        open.reduce((sum, row) => sum + (row[stage] ?? 0), 0)
      const failures = (failed_calls.get(provider) ?? []).flatMap(({ outcome, count }) => {
        const failure = FAILURES.find((each) => each === outcome)
        return failure === undefined ? [] : [{ outcome: failure, count }]
      })
      const outage = outages.find((each) => each.provider === provider)
      const { retrying, oldest_s } = retryingOf(
        retried,
        calls.map(({ job }) => job),
      )
      return {
        provider,
        calls: out,
        done: succeeded,
        declined,
        failed: failures.reduce((sum, { count }) => sum + count, 0),
        failures,
        outage:
          outage === undefined
            ? null
            : {
                problem: outage.problem,
                text: outageText(provider, outage.problem, outage.operations),
                operations: outage.operations,
                since: outage.since,
                check: outage.check,
              },
        retrying,
        oldest_retrying_s: oldest_s,
        retries,
        took: run,
        refused: now('refused'),
        in_doubt: now('in_doubt'),
        unknown: now('unknown'),
      }
    }),
  )
  const { open: as_of, counting } = await counted
  return { providers, as_of, counting }
}
