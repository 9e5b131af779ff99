// The session: its user, their permissions and the selected tenant.
import type { FastifyInstance } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { hasSandboxProcessor, PAYMENTS } from '#core/config/providers.ts'
import { AppError } from '#core/errors.ts'
import { SYSTEM_TENANT_ID } from '#core/ids.ts'
import { AREA_NAMES } from '#domain/areas.ts'
import { findPausesOf, pausedQueueSchema } from '#domain/jobs/pauses.ts'
import { MODES } from '#domain/modes.ts'
import { appendAuditEntry } from '#domain/people/audit-log.ts'
import { findTenantsOf, selectTenant, type SignedIn } from '#domain/people/find.ts'
import { assignableRoles } from '#domain/people/managers.ts'
import { roleSchema } from '#domain/people/role.ts'
import { ensureTwin } from '#domain/tenants.ts'
import { actorOf, canEmailInvitations, type DashboardContext } from '../context.ts'
import { limitReads } from '../reads.ts'
import { allowedActs, rolesByAct, grantableScopes } from '../roles.ts'
import { checkTenant } from '../tenant-gate.ts'

const tenantSchema = z.object({ id: z.uuid(), slug: z.string(), name: z.string() })
/** A tenant, or its twin. `mode`: the mode to show the tenant in; by default the mode of `tenant_id`. */
const tenantBody = z.strictObject({ tenant_id: z.uuid(), mode: z.enum(MODES).optional() })
const selectedSchema = z.object({ tenant_id: z.uuid(), mode: z.enum(MODES) })
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
  /** The tenant of the request: in test mode the twin. `live_id`: the id of the live tenant. */
  tenant: tenantSchema.extend({ live_id: z.uuid(), mode: z.enum(MODES) }).nullable(),
  /** In test mode, the id of the selected tenant if it has no twin yet. `POST /session/tenant` creates the twin. */
  tenant_without_twin: z.uuid().nullable(),
  role: z.enum([...roleSchema.options, 'operator']).nullable(),
  /** What the role may do: operations of /v1 that change something, and acts of the dashboard. */
  may: z.array(z.string()),
  /** The roles that may do each act. */
  who_may: z.record(z.string(), z.array(roleSchema)),
  /** The roles that the user may assign. Only members with one of these roles may be changed or removed by the user. */
  roles_to_give: z.array(roleSchema),
  /** The scopes that the user may grant to API keys. */
  key_scopes: z.array(z.string()),
  /** The tenants of the user. `twin_id`: the id in test mode; null if there is no twin yet. */
  tenants: z.array(tenantSchema.extend({ twin_id: z.uuid().nullable(), role: roleSchema })),
  areas: z.array(
    z.object({
      name: z.enum(AREA_NAMES),
      state: z.enum(['deployed', 'switched_off', 'not_deployed', 'without_credentials']),
    }),
  ),
  /** Names of the emulated providers. */
  emulators: z.array(z.string()),
  /** A payment method that moves no money. Null in live mode if the processor is not emulated. */
  payment_method_to_try: z.string().nullable(),
  /** Whether the sandbox is the processor of test mode; otherwise a test account of the processor is. */
  has_sandbox_processor: z.boolean(),
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

  // Creates the twin when test mode is opened for the first time.
  app.post(
    '/api/session/tenant',
    { schema: { body: tenantBody, response: { 200: selectedSchema } } },
    async (request) => {
      const { session_id } = await requireSession(request)
      const selected = await selectTenant(sql, session_id, request.body.tenant_id)
      if (selected === undefined)
        throw new AppError('not_found', { message: 'There is no such tenant, or you have no access to it.' })
      const { mode = selected.mode } = request.body
      if (mode === 'test' && selected.id === SYSTEM_TENANT_ID)
        throw new AppError('forbidden', { message: 'The tenant of the installation has no test mode.' })
      const { id: tenant_id } = mode === 'live' ? selected : await ensureTwin(sql, selected)
      await appendAuditEntry(sql, actorOf(request, tenant_id), { action: 'show_tenant' })
      return { tenant_id, mode }
    },
  )
}

/** Describes the session and the installation for the pages. */
async function describeSession(
  context: DashboardContext,
  signed_in: SignedIn,
): Promise<z.input<typeof sessionSchema>> {
  const { session_id, user_id: id, name, email, two_factor_enabled, is_operator, tenant } = signed_in
  const { sql, operations, config, version, emulators } = context
  const is_test = tenant?.mode === 'test'
  return {
    session_id,
    user: { id, name, email, two_factor_enabled },
    is_operator,
    tenant,
    tenant_without_twin: signed_in.tenant_without_twin,
    role: tenant?.role ?? null,
    may:
      tenant === null
        ? []
        : allowedActs(tenant.role, operations).filter((act) => !is_test || act !== 'members.manage'),
    who_may: rolesByAct(operations),
    // Members are changed in live mode, for both modes.
    roles_to_give: is_test ? [] : assignableRoles(tenant?.role ?? null),
    key_scopes: tenant === null ? [] : grantableScopes(tenant.role),
    tenants: await findTenantsOf(sql, id),
    areas: AREA_NAMES.map((area) => ({ name: area, state: areaState(context, area, is_test) })),
    emulators,
    payment_method_to_try:
      is_test || emulators.some((each) => each.toLowerCase() === PAYMENTS.provider)
        ? PAYMENTS.examples.payment_method
        : null,
    has_sandbox_processor: hasSandboxProcessor(config),
    api_url: config.API_URL ?? '',
    sends_email: canEmailInvitations(context),
    version,
  }
}

function areaState(
  { areas: { deployed, switched_off, without_credentials } }: DashboardContext,
  area: (typeof AREA_NAMES)[number],
  is_test: boolean,
) {
  if (switched_off.includes(area)) return 'switched_off'
  if (deployed.includes(area)) return 'deployed'
  if (!without_credentials.includes(area)) return 'not_deployed'
  // The sandbox needs no credentials.
  return is_test ? 'deployed' : 'without_credentials'
}
