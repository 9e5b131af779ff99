// What each role may do in its tenant. Everybody reads; who may do what beside that is said here, and nowhere else.
import { AppError } from '#core/errors.ts'
import { SCOPES, type Scope } from '#domain/areas.ts'
import { ROLES, type MemberRole } from '#domain/people/role.ts'

/** Beside the acts of /v1, by the names of their operations. */
const OWN_ACTS = ['keys.manage', 'members.manage'] as const

const ALL = 'all'
/** An operator who looks at a tenant is none of its members, and reads. */
const MAY: Readonly<Record<MemberRole | 'operator', typeof ALL | readonly string[]>> = {
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
export const READS: ReadonlySet<string> = new Set(['previewMessageTemplate'])

/** What keys of a role may do beside reading: scopes whose operations are all the role's to do. A test holds it to `MAY`. */
const WRITES: Partial<Record<MemberRole | 'operator', readonly Scope[]>> = { developer: ['webhooks:write'] }

/** The scopes that keys can have which this role makes. */
export function scopesOf(role: MemberRole | 'operator'): Scope[] {
  if (!mayDo(role, 'keys.manage')) return []
  if (MAY[role] === ALL) return [...SCOPES]
  return SCOPES.filter((scope) => scope.endsWith(':read') || WRITES[role]?.includes(scope))
}

/** Throws `forbidden`, which names them, where a key of this role would have scopes beyond the role. */
export function assertScopes(role: MemberRole, scopes: readonly Scope[]): void {
  const within = scopesOf(role)
  const beyond = scopes.filter((scope) => !within.includes(scope))
  if (beyond.length === 0) return
  throw new AppError('forbidden', {
    message: `Your role here, ${role}, may not do all that these scopes allow: ${beyond.join(', ')}.`,
    context: { role, scopes: beyond },
  })
}

/** Whether a role may do this: an operation of /v1 that changes something, or an act of ours. */
function mayDo(role: MemberRole | 'operator', act: string): boolean {
  const may = MAY[role]
  return may === ALL || may.includes(act)
}

/** Of these acts, those that the role may do. */
export function actsOf(role: MemberRole | 'operator', operations: readonly string[]): string[] {
  return [...OWN_ACTS, ...operations].filter((act) => mayDo(role, act))
}

/** The roles of members that may do each of these acts. */
export function rolesByAct(operations: readonly string[]): Record<string, MemberRole[]> {
  return Object.fromEntries([...OWN_ACTS, ...operations].map((act) => [act, rolesThatMay(act)]))
}

/** Throws `forbidden`, which names the roles that may, unless this one may. */
export function assertMay(role: MemberRole | 'operator', act: string): void {
  if (mayDo(role, act)) return
  const roles = rolesThatMay(act)
  throw new AppError('forbidden', {
    message: `Your role here, ${role}, may not do this. ${listed(roles)} may.`,
    context: { act, role, roles },
  })
}

function rolesThatMay(act: string): MemberRole[] {
  return ROLES.filter((role) => mayDo(role, act))
}

function listed(roles: readonly string[]): string {
  const text = new Intl.ListFormat('en', { type: 'disjunction' }).format(roles)
  return text.charAt(0).toUpperCase() + text.slice(1)
}
