// Settings, API Keys: made here, shown once, rotated and revoked.
import type { FastifyInstance, FastifyReply } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { dateTime } from '#core/time.ts'
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { actorOf, asMember, inTenant, type DashboardContext } from '../context.ts'
import { assertMay, assertScopes } from '../roles.ts'
import { AUDIT_HEADER } from '../v1.ts'

const keySchema = z.object({
  id: z.uuid(),
  name: z.string(),
  last_four: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  created_at: z.string(),
  last_used_at: z.string().nullable(),
  expires_at: z.string().nullable(),
  revoked_at: z.string().nullable(),
})
const shownKeySchema = keySchema.extend({ secret: z.string() })
const params = z.strictObject({ id: z.uuid().toLowerCase() })
const createBody = z.strictObject({
  name: z.string().trim().min(1).max(255),
  scopes: z.array(z.enum(SCOPES)).min(1),
  expires_at: dateTime.nullable().default(null),
})
/** Seconds for which the old key goes on working. */
const rotateBody = z.strictObject({
  grace_s: z
    .int()
    .min(0)
    .max(7 * 24 * 3600)
    .default(0),
})

export function keyRoutes(root: FastifyInstance, { sql }: DashboardContext): void {
  root.register(async (scope) => {
    const app = scope.withTypeProvider<ZodTypeProvider>()

    app.get(
      '/api/keys',
      { schema: { response: { 200: z.array(keySchema) } }, config: { look: 'listApiKeys' } },
      async (request) => listApiKeys(request.sql, inTenant(request).tenant.id),
    )

    app.post(
      '/api/keys',
      { schema: { body: createBody, response: { 201: shownKeySchema } } },
      async (request, reply) => {
        const { tenant, role } = asMember(request)
        assertMay(role, 'keys.manage')
        const { name, scopes, expires_at } = request.body
        assertScopes(role, scopes)
        if (expires_at !== null && Date.parse(expires_at) <= Date.now())
          throw new AppError('invalid_request', { param: 'expires_at', message: 'expires_at is over.' })
        const key = await sql.begin(async (tx) => {
          const made = await createApiKey(tx, tenant, { name, scopes: [...new Set(scopes)], expires_at })
          const details = { name, scopes, expires_at, last_four: made.last_four }
          await recorded(reply, (by) =>
            appendAuditEntry(tx, by, { action: 'keys.create', subject: 'key', subject_id: made.id, details }),
          )
          return made
        })
        return await reply.code(201).send(key)
      },
    )

    app.post(
      '/api/keys/:id/rotate',
      { schema: { params, body: rotateBody.nullish(), response: { 201: shownKeySchema } } },
      async (request, reply) => {
        const { tenant, role } = asMember(request)
        assertMay(role, 'keys.manage')
        const [{ id }, { grace_s }] = [request.params, request.body ?? { grace_s: 0 }]
        const key = await sql.begin(async (tx) => {
          const made = await rotateApiKey(tx, tenant, id, grace_s)
          if (made === undefined) throw noSuchKey()
          // The new key is theirs to read: what they may not do is undone.
          assertScopes(role, made.scopes)
          const details = { grace_s, new_key: made.id }
          await recorded(reply, (by) =>
            appendAuditEntry(tx, by, { action: 'keys.rotate', subject: 'key', subject_id: id, details }),
          )
          return made
        })
        return await reply.code(201).send(key)
      },
    )

    app.post('/api/keys/:id/revoke', { schema: { params } }, async (request, reply) => {
      const { tenant, role } = asMember(request)
      assertMay(role, 'keys.manage')
      const { id } = request.params
      await sql.begin(async (tx) => {
        if (!(await revokeApiKey(tx, tenant.id, id))) throw noSuchKey()
        await recorded(reply, (by) =>
          appendAuditEntry(tx, by, { action: 'keys.revoke', subject: 'key', subject_id: id }),
        )
      })
      return await reply.code(204).send()
    })
  })
}

/** Appends the entry of an act in the tenant that is shown, and names it in the answer. */
async function recorded(
  reply: FastifyReply,
  append: (by: ReturnType<typeof actorOf>) => Promise<number>,
): Promise<void> {
  const { request } = reply
  reply.header(AUDIT_HEADER, await append(actorOf(request, inTenant(request).tenant.id)))
}

function noSuchKey(): AppError {
  return new AppError('not_found', { message: 'There is no such key, or it is no longer valid.' })
}
