// The permissions of each role in a tenant. Every role may read. This file alone defines all other permissions.
import { AppError } from '#core/errors.ts'
import { SCOPES, type Scope } from '#domain/areas.ts'
import { ROLES, type MemberRole } from '#domain/people/role.ts'

/** Acts of the dashboard itself. The acts of /v1 have the names of their operations. */
const DASHBOARD_ACTS = ['keys.manage', 'members.manage', 'sandbox.use'] as const

const ALL = 'all'
/** `operator`: an operator who views a tenant without being a member. */
const ALLOWED_ACTS: Readonly<Record<MemberRole | 'operator', typeof ALL | readonly string[]>> = {
  owner: ALL,
  admin: ALL,
  developer: [
    'keys.manage',
    'sandbox.use',
    'advanceTestClock',
    'createWebhookEndpoint',
    'updateWebhookEndpoint',
    'deleteWebhookEndpoint',
    'rotateWebhookSecret',
    'testWebhookEndpoint',
    'recoverWebhookEndpoint',
    'replayWebhookDelivery',
    'createMessageTemplate',
    'updateMessageTemplate',
    'deleteMessageTemplate',
    'previewMessageTemplate',
  ],
  support: [
    'sandbox.use',
    'advanceTestClock',
    'capturePayment',
    'cancelPayment',
    'createRefund',
    'cancelMessage',
    'replayWebhookDelivery',
    'linkKyc',
    'decideKyc',
    'previewMessageTemplate',
  ],
  'read-only': ['previewMessageTemplate'],
  operator: ['previewMessageTemplate'],
}

/** POST operations that change nothing. The audit log treats them as reads. */
export const READ_ONLY_ACTS: ReadonlySet<string> = new Set(['previewMessageTemplate'])

/**
 * Write scopes that a role may grant, because the role may do all operations of the scope. A test compares the scopes
 * with `ALLOWED_ACTS`.
 */
const WRITE_SCOPES: Partial<Record<MemberRole | 'operator', readonly Scope[]>> = {
  developer: ['webhooks:write'],
}

/** The scopes that this role may grant to API keys. */
export function grantableScopes(role: MemberRole | 'operator'): Scope[] {
  if (!isAllowed(role, 'keys.manage')) return []
  if (ALLOWED_ACTS[role] === ALL) return [...SCOPES]
  return SCOPES.filter((scope) => scope.endsWith(':read') || WRITE_SCOPES[role]?.includes(scope))
}

/** Throws `forbidden` with the scopes that the role may not grant, if there are any. */
export function assertGrantable(role: MemberRole, scopes: readonly Scope[]): void {
  const grantable = grantableScopes(role)
  const excess = scopes.filter((scope) => !grantable.includes(scope))
  if (excess.length === 0) return
  throw new AppError('forbidden', {
    message: `Your role, ${role}, may not grant these scopes: ${excess.join(', ')}.`,
    context: { role, scopes: excess },
  })
}

/** `act`: an operation of /v1 that changes something, or an act of the dashboard. */
function isAllowed(role: MemberRole | 'operator', act: string): boolean {
  const allowed = ALLOWED_ACTS[role]
  return allowed === ALL || allowed.includes(act)
}

/** The operations and dashboard acts that the role may do. */
export function allowedActs(role: MemberRole | 'operator', operations: readonly string[]): string[] {
  return [...DASHBOARD_ACTS, ...operations].filter((act) => isAllowed(role, act))
}

/** The member roles that may do each act. */
export function rolesByAct(operations: readonly string[]): Record<string, MemberRole[]> {
  return Object.fromEntries([...DASHBOARD_ACTS, ...operations].map((act) => [act, allowedRoles(act)]))
}

/** Throws `forbidden` with the roles that may do the act, if this role may not. */
export function assertAllowed(role: MemberRole | 'operator', act: string): void {
  if (isAllowed(role, act)) return
  const roles = allowedRoles(act)
  throw new AppError('forbidden', {
    message: `Your role, ${role}, may not do this. ${formatRoles(roles)} may.`,
    context: { act, role, roles },
  })
}

function allowedRoles(act: string): MemberRole[] {
  return ROLES.filter((role) => isAllowed(role, act))
}

function formatRoles(roles: readonly string[]): string {
  const text = new Intl.ListFormat('en', { type: 'disjunction' }).format(roles)
  return text.charAt(0).toUpperCase() + text.slice(1)
}
