// Provider calls: written with the jobs that make them, each under a key of its own.
import type { z } from 'zod'
import type { Fragment, Json, Sql, Tx } from '#core/db.ts'
import { requestJson, type CallDefinition, type JobDefinition, type SelectedRequest } from '#jobs/job.ts'

/** A provider call as it was stored with the job. */
export type ProviderCall = {
  generation: number
  key: string
  request: Json
  /** It may be looked up, never sent: its key is too old, or its effect was given up as unknown. */
  look_only: boolean
  /** An attempt before this one may have reached the provider: it was ambiguous, or never came to an end. */
  in_doubt: boolean
  /** How long each try has been turned away before it had an effect; null when the last one was not, or came to no end. */
  refused_ms: number | null
  /** What the provider calls its effect, where somebody said so before it was settled. */
  reference: string | null
}

/**
 * Writes the provider calls that the jobs will make, with their exact parameters: neither a retry nor a deploy changes
 * what is sent under a key. `from` has `tenant_id, job_id`, and what the fields of the request are selected from.
 */
export function recordCall<Request extends z.ZodType>(
  sql: Sql | Tx,
  { call }: JobDefinition<string, z.ZodType, CallDefinition<Request>>,
  { from, request }: { from: Fragment; request: SelectedRequest<Request> },
): Fragment {
  return sql`
    insert into provider_calls (tenant_id, job_id, generation, key, operation, request)
    select tenant_id, job_id, 1, job_id || ':1', ${call.operation}, ${requestJson(sql, request)} from ${from}`
}

/** Whether the call `c` may not be sent again: a provider keeps a key for 24 hours. */
export function keyIsTooOld(sql: Sql): Fragment {
  return sql`c.first_sent_at < now() - interval '23 hours'`
}
