// Who is signed in, what they may do, and whose pages they see.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { PAYMENTS } from '#core/config/providers.ts'
import { AppError } from '#core/errors.ts'
import { AREA_NAMES } from '#domain/areas.ts'
import { findPausesOf, pausedQueueSchema } from '#domain/jobs/pauses.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { findTenantsOf, selectTenant, type SignedIn } from '#domain/people/find.ts'
import { assignableRoles } from '#domain/people/managers.ts'
import { roleSchema } from '#domain/people/role.ts'
import { actorOf, canEmailInvitations, type DashboardContext } from '../context.ts'
import { limitReads } from '../reads.ts'
import { allowedActs, rolesByAct, grantableScopes } from '../roles.ts'
import { checkTenant } from '../tenant-gate.ts'

const tenantSchema = z.object({ id: z.uuid(), slug: z.string(), name: z.string() })
const sessionSchema = z.object({
  /** Of this session, to tell it apart in the list of sessions. */
  session_id: z.uuid(),
  user: z.object({
    id: z.uuid(),
    name: z.string(),
    email: z.string(),
    two_factor_enabled: z.boolean(),
  }),
  is_operator: z.boolean(),
  tenant: tenantSchema.nullable(),
  role: z.enum([...roleSchema.options, 'operator']).nullable(),
  /** The operations of /v1 that change something, and acts of the dashboard, that the role may do here. */
  may: z.array(z.string()),
  /** By act, the roles that may do it. */
  who_may: z.record(z.string(), z.array(roleSchema)),
  /** The roles that they may give to members, change and take away. */
  roles_to_give: z.array(roleSchema),
  /** The scopes that keys which they make can have. */
  key_scopes: z.array(z.string()),
  tenants: z.array(tenantSchema.extend({ role: roleSchema })),
  areas: z.array(
    z.object({
      name: z.enum(AREA_NAMES),
      state: z.enum(['deployed', 'switched_off', 'not_deployed', 'without_credentials']),
    }),
  ),
  /** Providers that are emulated here. */
  emulators: z.array(z.string()),
  /** A card that the emulated processor accepts; null: it is not emulated. */
  payment_method_to_try: z.string().nullable(),
  /** Where API keys are used. */
  api_url: z.string(),
  /** Whether people can be invited by email; else they are given a link. */
  sends_email: z.boolean(),
  version: z.string(),
})

export function sessionRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, runList, requireSession } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get('/api/session', { schema: { response: { 200: sessionSchema } } }, async (request, reply) => {
    const found = await requireSession(request, { refresh: true })
    await checkTenant(sql, request, found)
    for (const cookie of request.set_cookies ?? []) reply.header('set-cookie', cookie)
    return await describeSession(context, found)
  })

  root.register(async (scope) => {
    const reads = scope.withTypeProvider<ZodTypeProvider>()
    reads.addHook('preHandler', async (request) => {
      request.signed_in = await requireSession(request)
      await checkTenant(sql, request, request.signed_in)
    })
    limitReads(reads, runList, ({ signed_in }) => {
      const { user_id, tenant } = signed_in!
      return { key_id: user_id, tenant_id: tenant?.id ?? user_id }
    })
    // It shows no row of the tenant: so that an operator reads it is not put on record.
    reads.get(
      '/api/session/pauses',
      { schema: { response: { 200: z.array(pausedQueueSchema) } } },
      async ({ signed_in, sql }) => {
        const { tenant } = signed_in!
        return tenant === null ? [] : await findPausesOf(sql, tenant.id)
      },
    )
  })

  app.post(
    '/api/session/tenant',
    { schema: { body: z.strictObject({ tenant_id: z.uuid() }) } },
    async (request, reply) => {
      const { tenant_id } = request.body
      const { session_id } = await requireSession(request)
      const shown = await selectTenant(sql, session_id, tenant_id)
      if (!shown)
        throw new AppError('not_found', { message: 'There is no such tenant, or you have no access to it.' })
      await appendAuditEntry(sql, actorOf(request, tenant_id), { action: 'show_tenant' })
      return await reply.code(204).send()
    },
  )
}

/** Describes the session and the installation for the pages. */
async function describeSession(
  context: DashboardContext,
  { session_id, user_id: id, name, email, two_factor_enabled, is_operator, tenant }: SignedIn,
): Promise<z.input<typeof sessionSchema>> {
  const { sql, operations, config, version, emulators } = context
  return {
    session_id,
    user: { id, name, email, two_factor_enabled },
    is_operator,
    tenant,
    role: tenant?.role ?? null,
    may: tenant === null ? [] : allowedActs(tenant.role, operations),
    who_may: rolesByAct(operations),
    roles_to_give: assignableRoles(tenant?.role ?? null),
    key_scopes: tenant === null ? [] : grantableScopes(tenant.role),
    tenants: await findTenantsOf(sql, id),
    areas: AREA_NAMES.map((area) => ({ name: area, state: areaState(context.areas, area) })),
    emulators,
    payment_method_to_try: emulators.some((each) => each.toLowerCase() === PAYMENTS.provider)
      ? PAYMENTS.examples.payment_method
      : null,
    api_url: config.API_URL ?? '',
    sends_email: canEmailInvitations(context),
    version,
  }
}

function areaState(
  { deployed, switched_off, without_credentials }: DashboardContext['areas'],
  area: (typeof AREA_NAMES)[number],
) {
  if (deployed.includes(area)) return 'deployed'
  if (switched_off.includes(area)) return 'switched_off'
  return without_credentials.includes(area) ? 'without_credentials' : 'not_deployed'
}
