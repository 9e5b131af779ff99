// Answers timelines: every noun that jobs work on has one, and all are paged alike.
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { dateTime } from '#core/time.ts'
import type { SubjectKey } from '#domain/subjects.ts'
import { listTimeline, type TimelineEntry } from '#domain/timeline.ts'
import type { Lists } from './lists.ts'
import { linkBefore, pageSize } from './route.ts'

/** `before` and `limit` of a timeline. */
export const timelinePage = z.strictObject({
  before: dateTime
    .optional()
    .meta({ description: 'The `at` of the first entry of the page that came after.' }),
  limit: pageSize(100),
})

/** A page of the timeline of a row that exists; a full one links to what came before it. */
export async function answerTimeline(
  lists: Lists,
  request: FastifyRequest & { query: z.output<typeof timelinePage> },
  reply: FastifyReply,
  of: SubjectKey,
): Promise<TimelineEntry[]> {
  const entries = await lists(request, reply, (lists_sql) => listTimeline(lists_sql, of, request.query))
  const [first] = entries
  if (first !== undefined && entries.length >= request.query.limit)
    reply.header('link', linkBefore(request.url, first.at))
  return entries
}
