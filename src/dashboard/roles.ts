// What each role may do in its tenant. Everybody reads; who may do what beside that is said here, and nowhere else.
import { AppError } from '#core/errors.ts'
import { SCOPES, type Scope } from '#domain/areas.ts'
import { ROLES, type MemberRole } from '#domain/people/role.ts'

/** Beside the acts of /v1, by the names of their operations. */
const DASHBOARD_ACTS = ['keys.manage', 'members.manage'] as const

const ALL = 'all'
/** An operator who looks at a tenant is none of its members, and reads. */
const ALLOWED_ACTS: Readonly<Record<MemberRole | 'operator', typeof ALL | readonly string[]>> = {
  owner: ALL,
  admin: ALL,
  developer: [
    'keys.manage',
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

/** Acts by their method, which change nothing: on record they are what reads are. */
export const READ_ONLY_ACTS: ReadonlySet<string> = new Set(['previewMessageTemplate'])

/** What keys of a role may do beside reading: scopes whose operations are all the role's to do. A test holds it to `ALLOWED_ACTS`. */
const WRITE_SCOPES: Partial<Record<MemberRole | 'operator', readonly Scope[]>> = {
  developer: ['webhooks:write'],
}

/** The scopes that keys can have which this role makes. */
export function grantableScopes(role: MemberRole | 'operator'): Scope[] {
  if (!isAllowed(role, 'keys.manage')) return []
  if (ALLOWED_ACTS[role] === ALL) return [...SCOPES]
  return SCOPES.filter((scope) => scope.endsWith(':read') || WRITE_SCOPES[role]?.includes(scope))
}

/** Throws `forbidden`, which names them, where a key of this role would have scopes beyond the role. */
export function assertGrantable(role: MemberRole, scopes: readonly Scope[]): void {
  const grantable = grantableScopes(role)
  const excess = scopes.filter((scope) => !grantable.includes(scope))
  if (excess.length === 0) return
  throw new AppError('forbidden', {
    message: `Your role here, ${role}, may not do all that these scopes allow: ${excess.join(', ')}.`,
    context: { role, scopes: excess },
  })
}

/** Whether a role may do this: an operation of /v1 that changes something, or an act of ours. */
function isAllowed(role: MemberRole | 'operator', act: string): boolean {
  const allowed = ALLOWED_ACTS[role]
  return allowed === ALL || allowed.includes(act)
}

/** Of these acts, those that the role may do. */
export function allowedActs(role: MemberRole | 'operator', operations: readonly string[]): string[] {
  return [...DASHBOARD_ACTS, ...operations].filter((act) => isAllowed(role, act))
}

/** The roles of members that may do each of these acts. */
export function rolesByAct(operations: readonly string[]): Record<string, MemberRole[]> {
  return Object.fromEntries([...DASHBOARD_ACTS, ...operations].map((act) => [act, allowedRoles(act)]))
}

/** Throws `forbidden`, which names the roles that may, unless this one may. */
export function assertAllowed(role: MemberRole | 'operator', act: string): void {
  if (isAllowed(role, act)) return
  const roles = allowedRoles(act)
  throw new AppError('forbidden', {
    message: `Your role here, ${role}, may not do this. ${formatRoles(roles)} may.`,
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
