// The route of a resource's timeline: what happened to it, in order.
import { z } from 'zod'
import { dateTime } from '#core/time.ts'
import type { ResourceKey } from '#domain/resources.ts'
import { exampleOfCall, listTimeline, timelineEntrySchema } from '#domain/timeline.ts'
import type { RequestedRow } from '#domain/jobs/find-with-jobs.ts'
import type { CallDefinition } from '#jobs/job.ts'
import type { RouteApp, RouteContext } from './context.ts'
import type { RouteDefinition } from './openapi/operation.ts'
import { idParams, linkBefore, pageSize, route } from './route.ts'

const timelineQuery = z.strictObject({
  before: dateTime.optional().meta({ description: 'The `at` of the first entry of the later page.' }),
  limit: pageSize(100),
})

type TimelineDefinition = Pick<
  RouteDefinition,
  'area' | 'tag' | 'scope' | 'operation_id' | 'summary' | 'errors'
> & {
  /** The path of the resources, e.g. `/v1/payments`. */
  path: string
  resource: ResourceKey['resource']
  /** The kinds of entries, for the description: `attempt and event of the payout`. */
  entries: string
  /** The provider call and the provider's reference of the example entry. */
  example: { call: Pick<CallDefinition, 'operation'>; reference: string }
}

/** Adds `GET {path}/{id}/timeline`. `find` throws if there is no such resource. */
export function timelineRoute(
  app: RouteApp,
  { runList }: RouteContext,
  { path, resource, entries: entries_text, example: { call, reference }, ...definition }: TimelineDefinition,
  find: (requested: RequestedRow) => Promise<unknown>,
): void {
  app.get(
    `${path}/:id/timeline`,
    route({
      ...definition,
      description: `Every ${entries_text}, oldest first: the last \`limit\` entries, or the last \`limit\` before \`before\`. Entries of the same moment come on the same page, so there may be a few more than \`limit\`. A full page links to the previous entries.`,
      params: idParams,
      querystring: timelineQuery,
      response: { 200: z.array(timelineEntrySchema) },
      examples: { answer: { name: call.operation, details: exampleOfCall(reference) } },
    }),
    async (request, reply) => {
      const { tenant_id } = request.credentials
      const { id } = request.params
      await find({ tenant_id, id, job_id: null })
      const entries = await runList(request, reply, (lists_sql) =>
        listTimeline(lists_sql, { tenant_id, resource, resource_id: id }, request.query),
      )
      const [first] = entries
      if (first !== undefined && entries.length >= request.query.limit)
        reply.header('link', linkBefore(request.url, first.at))
      return entries
    },
  )
}
