// Settings, API Keys: lists, creates, rotates and revokes keys. A secret is shown once.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { AppError } from '#core/errors.ts'
import { nameText } from '#core/names.ts'
import { dateTime } from '#core/time.ts'
import { countValidKeys, createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '#domain/api-keys.ts'
import { SCOPES } from '#domain/areas.ts'
import { actorOf, requireMember, requireTenant, type DashboardContext } from '../context.ts'
import { AUDIT_HEADER } from '../on-record.ts'
import { assertAllowed, assertGrantable } from '../roles.ts'

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
const keyWithSecretSchema = keySchema.extend({ secret: z.string() })
/** The maximum number of keys of a tenant that are valid at the same time, and that are listed. */
const MAX_KEYS = { valid: 200, listed: 500 }
const params = z.strictObject({ id: z.uuid().toLowerCase() })
const createBody = z.strictObject({
  name: nameText,
  scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
  expires_at: dateTime.nullable().default(null),
})
/** `grace_s`: how long the old key stays valid. */
const rotateBody = z.strictObject({
  grace_s: z
    .int()
    .min(0)
    .max(7 * 24 * 3600)
    .default(0),
})

export function keyRoutes(root: FastifyInstance, { sql }: DashboardContext): void {
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get(
    '/api/keys',
    { schema: { response: { 200: z.array(keySchema) } }, config: { audit_action: 'listApiKeys' } },
    async (request) => listApiKeys(request.sql, requireTenant(request).tenant.id, MAX_KEYS.listed),
  )

  app.post(
    '/api/keys',
    { schema: { body: createBody, response: { 201: keyWithSecretSchema } } },
    async (request, reply) => {
      const { tenant, role } = requireMember(request)
      assertAllowed(role, 'keys.manage')
      const { name, scopes, expires_at } = request.body
      assertGrantable(role, scopes)
      if (expires_at !== null && Date.parse(expires_at) <= Date.now())
        throw new AppError('invalid_request', { param: 'expires_at', message: 'expires_at is in the past.' })
      if ((await countValidKeys(sql, tenant.id)) >= MAX_KEYS.valid)
        throw new AppError('conflict', {
          message: `This tenant has ${MAX_KEYS.valid} valid keys: revoke one before you create another.`,
        })
      const requested = { name, scopes: [...new Set(scopes)], expires_at }
      const key = await createApiKey(sql, tenant, requested, actorOf(request, tenant.id))
      return await reply.code(201).header(AUDIT_HEADER, key.audit_entry).send(key)
    },
  )

  app.post(
    '/api/keys/:id/rotate',
    { schema: { params, body: rotateBody.nullish(), response: { 201: keyWithSecretSchema } } },
    async (request, reply) => {
      const { tenant, role } = requireMember(request)
      assertAllowed(role, 'keys.manage')
      const [{ id }, { grace_s }] = [request.params, request.body ?? { grace_s: 0 }]
      const key = await sql.begin(async (tx) => {
        const rotated = await rotateApiKey(tx, tenant, id, grace_s, actorOf(request, tenant.id))
        if (rotated === undefined) throw keyNotFound()
        // The caller reads the new secret, so they must be allowed to grant its scopes. A throw rolls the rotation
        // back.
        assertGrantable(role, rotated.scopes)
        return rotated
      })
      return await reply.code(201).header(AUDIT_HEADER, key.audit_entry).send(key)
    },
  )

  app.post('/api/keys/:id/revoke', { schema: { params } }, async (request, reply) => {
    const { tenant, role } = requireMember(request)
    assertAllowed(role, 'keys.manage')
    const entry = await revokeApiKey(sql, tenant.id, request.params.id, actorOf(request, tenant.id))
    if (entry === undefined) throw keyNotFound()
    return await reply.code(204).header(AUDIT_HEADER, entry).send()
  })
}

function keyNotFound(): AppError {
  return new AppError('not_found', { message: 'There is no such key, or it is no longer valid.' })
}
