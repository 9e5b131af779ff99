// How the providers do: what came of the calls to each, and which are refused, in doubt or unknown.
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import type { Sql } from '#core/db.ts'
import { CALLS } from '#jobs/index.ts'
import { countedFields, findCounted } from './counted.ts'
import { countField, sumRollups } from './figures.ts'
import { percentilesSchema } from '../rollups/histograms.ts'
import { findOpenNow, findRollups } from './job-names.ts'

export const providerHealthSchema = z
  .object({
    providers: z.array(
      z.object({
        provider: z.string().meta({ description: 'Its name.', example: PAYMENTS.provider }),
        calls: countField('Jobs with a call to it that finished in the last 15 minutes.', 1200),
        done: countField('Those whose effect happened.', 1190),
        declined: countField('Those that it declined.', 10),
        failed: countField('Those that ended otherwise: neither done nor declined.', 0),
        retries: countField('Attempts beyond the first.', 2),
        took: percentilesSchema.meta({ description: 'How long the last attempt took, from claim to end.' }),
        refused: countField('Jobs whose calls are turned away now, before they have an effect.', 0),
        in_doubt: countField('Jobs of which an attempt may have reached it without an answer.', 0),
        unknown: countField('Jobs whose effect is not known.', 0),
      }),
    ),
    ...countedFields,
  })
  .meta({ id: 'ProviderHealth', description: 'Each provider, as its calls show it.' })
export type ProviderHealth = z.output<typeof providerHealthSchema>

/** The providers that this version calls, with the calls of the last 15 minutes, and with those that are open. */
export async function findProviderHealth(sql: Sql): Promise<ProviderHealth> {
  const by_provider = Map.groupBy(CALLS, ({ provider }) => provider)
  const counted = findCounted(sql)
  const providers = await Promise.all(
    Array.from(by_provider, async ([provider, calls]) => {
      const by_queue = Map.groupBy(calls, ({ queue }) => queue)
      const found = await Promise.all(
        Array.from(by_queue, async ([queue, of_queue]) => {
          const of = { queue, names: of_queue.map(({ job }) => job) }
          const [rows, open] = await Promise.all([
            findRollups(sql, { ...of, window: '15m' }),
            findOpenNow(sql, of),
          ])
          return { rows, open: [...open.values()] }
        }),
      )
      const { out, succeeded, declined, retries, run } = sumRollups(found.flatMap(({ rows }) => rows))
      const open = found.flatMap((each) => each.open)
      const now = (stage: 'refused' | 'in_doubt' | 'unknown') =>
        open.reduce((sum, row) => sum + (row[stage] ?? 0), 0)
      return {
        provider,
        calls: out,
        done: succeeded,
        declined,
        failed: out - succeeded - declined,
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
