// `npm run users`: manages the users of the dashboard, for the operators of the installation.
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { ConfigError, loadConfig, type Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'
import { isMailAddress } from '#core/mail-address.ts'
import type { Actor } from '#domain/people/audit-log.ts'
import { invite } from '#domain/people/invitations.ts'
import {
  endSessions,
  findUnverifiedUser,
  listUsers,
  resetSecondFactor,
  setOperator,
  setPassword,
  type UserView,
} from '#domain/people/operate.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import { newPassword } from '#domain/people/password.ts'
import { ROLES, roleSchema } from '#domain/people/role.ts'
import { ensureTenant } from '#domain/tenants.ts'
import { withDatabase } from './database.ts'
import { findCommand, refuseSurplus, requireOption } from './arguments.ts'
import { print, terminalText } from './print.ts'
import { runAsProgram } from './program.ts'
import { readDevFile } from './dev-file.ts'

const HELP = `sluice users: manages the users of the dashboard.

  npm run users -- list [--tenant acme]
  npm run users -- invite --tenant acme --email ada@acme.example --role owner
  npm run users -- operator --email ada@acme.example [--off] [--unverified-address]
  npm run users -- end-sessions --email ada@acme.example
  npm run users -- reset-second-factor --email ada@acme.example
  npm run users -- set-password --email ada@acme.example

list                 lists users, with the tenants that they are members of.
invite               prints a link that works once, for a week. Creates the tenant if there is none. Roles:
                     ${ROLES.join(', ')}.
operator             makes a user an operator, who sees the queues and jobs of all tenants; --off reverts it. If the
                     invitation link was printed and not mailed, the user's address is unverified: --unverified-address
                     makes them an operator anyway.
end-sessions         signs a user out everywhere.
reset-second-factor  for a user who lost it: removes one-time codes and passkeys, and signs the user out everywhere. The
                     user then signs in with the password alone.
set-password         generates a password, prints it once, removes passkeys, and signs the user out everywhere. One-time
                     codes stay.

--json               prints JSON.
Each act is in the audit log, with your user name on this machine.
DATABASE_URL names the database. Default: the database of the \`npm start\` that runs in this folder.
DASHBOARD_URL is the base URL of links.`

const OPTIONS = {
  tenant: { type: 'string' },
  email: { type: 'string' },
  role: { type: 'string' },
  off: { type: 'boolean', default: false },
  'unverified-address': { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type UserOptions = {
  tenant?: string
  email?: string
  role?: string
  off: boolean
  'unverified-address': boolean
}
/** The lines to print, and the value for --json. */
type Printed = { lines: string[]; json: unknown }
type Command = (sql: Sql, values: UserOptions, config: Config) => Promise<Printed>

const COMMAND = 'npm run users'
const COMMANDS: Record<string, Command> = {
  list: async (sql, { tenant }) => {
    const users = await listUsers(sql, tenant)
    return { lines: users.length === 0 ? ['There are no users.'] : users.map(formatUser), json: users }
  },
  invite: async (sql, values, config) => {
    const [slug, email] = [requireOption(values, 'tenant'), emailOf(values)]
    if (!/^[a-z0-9-]{1,40}$/.test(slug))
      throw new ConfigError('--tenant must be 1 to 40 characters: a-z, 0-9 and -')
    const { data: role } = roleSchema.safeParse(requireOption(values, 'role'))
    if (role === undefined) throw new ConfigError(`--role must be one of ${ROLES.join(', ')}`)
    const origin = originOfDashboard(config)
    const { id: tenant_id } = await ensureTenant(sql, slug)
    const invitation = { tenant_id, email, role, by: commandActor(COMMAND, tenant_id), mailed: false }
    const invited = await invite(sql, invitation, async () => {})
    if ('refused' in invited) throw new ConfigError(`${email} is already a member of ${slug}.`)
    const { token, expires_at } = invited
    const link = `${origin}/invitation/${token}`
    const first = `An invitation for ${email} as ${role} of ${slug}. The link is shown only once. It works once, until ${expires_at}:`
    return { lines: [first, '', `  ${link}`, ''], json: { email, role, link, expires_at } }
  },
  operator: async (sql, values) => {
    if (!values.off && !values['unverified-address']) await assertVerified(sql, emailOf(values))
    await onUser(values, (act) => setOperator(sql, act, !values.off))
    return confirmation(values, values.off ? 'is no longer an operator' : 'is an operator')
  },
  'end-sessions': async (sql, values) => {
    await onUser(values, (act) => endSessions(sql, act))
    return confirmation(values, 'is signed out everywhere')
  },
  'reset-second-factor': async (sql, values) => {
    await onUser(values, (act) => resetSecondFactor(sql, act))
    return confirmation(values, 'signs in with the password alone, and is signed out everywhere')
  },
  'set-password': async (sql, values) => {
    const { hashPassword } = await import('better-auth/crypto')
    const password = newPassword()
    const password_hash = await hashPassword(password)
    await onUser(values, (act) => setPassword(sql, act, password_hash))
    const first = `The new password of ${values.email}, shown only once. Their passkeys were removed. They should change the password in their profile:`
    return { lines: [first, '', `  ${password}`, ''], json: { email: values.email, password } }
  },
}

export async function usersCommand(args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const [name] = positionals
  if (values.help || name === undefined) return print(HELP)
  const command = findCommand(COMMANDS, name)
  refuseSurplus(positionals, HELP)
  const config = loadConfig(env)
  await withDatabase(config, { max: 1, application_name: 'sluice-users' }, async (sql) => {
    const { lines, json } = await command(sql, values, config)
    if (values.json) print(JSON.stringify(json, null, 2))
    else for (const line of lines) print(line)
  })
}

async function assertVerified(sql: Sql, email: string): Promise<void> {
  const invitations = await findUnverifiedUser(sql, email)
  if (invitations === undefined) return
  const by = invitations.map(
    ({ tenant, invited_by }) => `invited to ${tenant} by ${invited_by ?? 'npm run users'}`,
  )
  throw new ConfigError(
    `The address ${email} is not verified: the user joined by an invitation link that was shown and not mailed (${by.join(', ')}). If you know the user, run the command again with --unverified-address.`,
  )
}

function formatUser({ email, name, tenants, ...user }: UserView): string {
  const marks = [
    ...(user.is_operator ? ['operator'] : []),
    user.two_factor_enabled ? 'one-time codes' : 'no one-time codes',
    `passkeys ${user.passkeys}`,
    `sessions ${user.sessions}`,
  ]
  const of = tenants.map(({ slug, role }) => `${slug} (${role})`).join(', ')
  return `${terminalText(email)}  ${terminalText(name)}  ${of === '' ? 'member of no tenant' : of}  ${marks.join(', ')}`
}

function confirmation({ email }: UserOptions, what: string): Printed {
  return { lines: [`${email} ${what}.`], json: { email, done: true } }
}

async function onUser(
  values: UserOptions,
  change: (act: { email: string; by: Actor }) => Promise<boolean>,
): Promise<void> {
  const email = emailOf(values)
  if (!(await change({ email, by: commandActor(COMMAND, null) })))
    throw new ConfigError(`There is no user with the address ${email}.`)
}

function originOfDashboard(config: Config): string {
  const schema = z.object({ dashboard: z.object({ url: z.string() }) })
  const url = config.DASHBOARD_URL ?? readDevFile(config.DATA_DIR, schema)?.dashboard.url
  if (url === undefined)
    throw new ConfigError(
      'Set DASHBOARD_URL, the base URL of links, e.g. DASHBOARD_URL=https://dashboard.example.com',
    )
  return new URL(url).origin
}

function emailOf(values: UserOptions): string {
  const email = requireOption(values, 'email').toLowerCase()
  if (!isMailAddress(email) || /[<\s]/.test(email))
    throw new ConfigError('--email must be an email address, without a name')
  return email
}

if (import.meta.main) await runAsProgram(usersCommand)
