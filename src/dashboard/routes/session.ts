// The session: its user, their permissions and the selected tenant.
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
  /** Identifies this session in the list of sessions. */
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
  /** What the role may do: operations of /v1 that change something, and acts of the dashboard. */
  may: z.array(z.string()),
  /** The roles that may do each act. */
  who_may: z.record(z.string(), z.array(roleSchema)),
  /** The roles that the user may assign. Only members with one of these roles may be changed or removed by the user. */
  roles_to_give: z.array(roleSchema),
  /** The scopes that the user may grant to API keys. */
  key_scopes: z.array(z.string()),
  tenants: z.array(tenantSchema.extend({ role: roleSchema })),
  areas: z.array(
    z.object({
      name: z.enum(AREA_NAMES),
      state: z.enum(['deployed', 'switched_off', 'not_deployed', 'without_credentials']),
    }),
  ),
  /** Names of the emulated providers. */
  emulators: z.array(z.string()),
  /** A payment method that the emulated processor accepts. Null if the processor is not emulated. */
  payment_method_to_try: z.string().nullable(),
  /** Base URL of the API. */
  api_url: z.string(),
  /** Whether invitations are emailed; otherwise the inviter gets a link. */
  sends_email: z.boolean(),
  version: z.string(),
})

export function sessionRoutes(root: FastifyInstance, context: DashboardContext): void {
  const { sql, database, runList, requireSession } = context
  const app = root.withTypeProvider<ZodTypeProvider>()

  app.get('/api/session', { schema: { response: { 200: sessionSchema } } }, async (request, reply) => {
    // Extending a session writes: a seal of the database waits for it, and a sealed database is only read.
    const found = await database.track(() => requireSession(request, { refresh: database.isCurrent() }))
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
    // Pauses are not data of the tenant, so the access of operators is not recorded.
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
      const selected = await selectTenant(sql, session_id, tenant_id)
      if (!selected)
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
