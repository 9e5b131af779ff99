// `npm run keys`: manages the API keys of a tenant, its contact, and its allowed sender domains and SMS senders.
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { asciiDomain, bareAddress, isSmsSender } from '#core/addresses.ts'
import { ConfigError, loadConfig, type Config } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import type { Sql } from '#core/db.ts'
import { isMailAddress, isMailDomain } from '#core/mail-address.ts'
import { nameText } from '#core/names.ts'
import { createApiKey, listApiKeys, revokeApiKey, rotateApiKey } from '#domain/api-keys.ts'
import { AREAS, SCOPES, type Scope } from '#domain/areas.ts'
import { MODES, type Mode } from '#domain/modes.ts'
import type { Actor } from '#domain/people/audit-log.ts'
import { commandActor } from '#domain/people/operator-here.ts'
import {
  ensureTenant,
  ensureTwin,
  findEmailDomains,
  findSmsSenders,
  findTenant,
  MAX_EMAIL_DOMAINS,
  setEmailDomains,
  setSmsSenders,
  setTenantContact,
  type Tenant,
} from '#domain/tenants.ts'
import { parseTenantName, tenantName } from '#domain/tenant-names.ts'
import { refuseSurplus, requireOption } from './arguments.ts'
import { withDatabase } from './database.ts'
import { print, terminalText, wrapText } from './print.ts'
import { runAsProgram } from './program.ts'

const SCOPE_HELP = Object.values(AREAS).flatMap(({ scopes }) =>
  Object.entries(scopes).map(([scope, may]) => wrapText(`  ${scope.padEnd(17)} ${may}`, ' '.repeat(20))),
)

const HELP = `sluice keys: the API keys of a tenant, its contact, its email domains and its SMS senders.

  npm run keys -- create --tenant acme --scopes customer:write,payments:write [--name "Shop"] [--expires 2027-01-01]
  npm run keys -- list   --tenant acme
  npm run keys -- rotate --tenant acme --id <key id> [--grace 3600]
  npm run keys -- revoke --tenant acme --id <key id>
  npm run keys -- contact --tenant acme --email ops@acme.example | --none
  npm run keys -- domains --tenant acme [--only shop.example,mail.shop.example | --none | --default]
  npm run keys -- senders --tenant acme [--only +4915112345678,Shop | --none | --default]

Each command takes --mode test (or --tenant acme/test), for the keys and settings of the tenant's twin in test mode.

create   creates a key and prints it, once. Creates the tenant if it does not exist. --scopes all: every scope.
         --mode test: a key of test mode, sk_test_..., which moves no money. The tenant must exist, its twin need not.
rotate   creates a key with the same name, scopes and expiry; the old key works for --grace seconds more (default 3600).
revoke   the key stops working everywhere within a second.
contact  sets the email address that is notified when the tenant has to act, for example when a webhook endpoint was
         disabled because it only fails or answered 410. --none: no address. list prints it.
domains  prints or sets the domains that the tenant may use in \`from\`. --none: no \`from\`, email is sent from the
         installation's address. --default: the domains of EMAIL_FROM_DOMAINS, or, if that is unset, any domain
         except the system's own address. A change takes effect within a second, also for scheduled and waiting
         email: an email whose sender is no longer allowed fails.
senders  prints or sets the senders of the tenant's SMS: numbers, messaging services (MG...) or names. The first is
         the default. --none: only TWILIO_FROM, the installation's sender. --default: any sender. A reply goes to the
         last tenant that wrote to that person from that number. A change applies to SMS that are accepted afterwards.

Scopes (a key may have several; reading customers needs none):

${SCOPE_HELP.join('\n')}

DATABASE_URL names the database. Default: the database of the \`npm start\` that runs in this folder.`

const OPTIONS = {
  tenant: { type: 'string' },
  scopes: { type: 'string' },
  name: { type: 'string' },
  expires: { type: 'string' },
  id: { type: 'string' },
  grace: { type: 'string' },
  email: { type: 'string' },
  none: { type: 'boolean' },
  only: { type: 'string' },
  default: { type: 'boolean' },
  mode: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

type KeyOptions = {
  tenant?: string
  scopes?: string
  name?: string
  expires?: string
  id?: string
  grace?: string
  email?: string
  none?: boolean
  only?: string
  default?: boolean
  mode?: string
}

export async function keysCommand(args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true })
  const [command] = positionals
  if (values.help === true || command === undefined) return print(HELP)
  if (!['create', 'list', 'rotate', 'revoke', 'contact', 'domains', 'senders'].includes(command))
    throw new ConfigError(`There is no command "${command}". See --help.`)
  refuseSurplus(positionals, HELP)
  const { slug, mode: named_mode } = parseTenantName(requireOption(values, 'tenant'))
  const mode = values.mode === undefined ? named_mode : MODES.find((each) => each === values.mode)
  if (mode === undefined) throw new ConfigError('--mode must be live or test.')
  const config = loadConfig(env)
  await withDatabase(config, { max: 1, application_name: 'sluice-keys' }, async (sql) => {
    if (command === 'create') return await create(sql, slug, mode, values)
    const tenant = await findTenant(sql, slug, mode)
    if (tenant === undefined) {
      const has_no_twin = mode === 'test' && (await findTenant(sql, slug, 'live')) !== undefined
      throw new ConfigError(
        has_no_twin ? `The tenant "${slug}" has no key of test mode yet.` : `There is no tenant "${slug}".`,
      )
    }
    if (command === 'list') return await show(sql, tenant)
    if (command === 'contact') return await setContact(sql, tenant, values)
    if (command === 'domains') return await showOrSetDomains(sql, tenant, values, config)
    if (command === 'senders') return await showOrSetSenders(sql, tenant, values)
    if (command === 'rotate') return await rotate(sql, tenant, values)
    return await revoke(sql, tenant, values)
  })
}

async function create(sql: Sql, slug: string, mode: Mode, values: KeyOptions): Promise<void> {
  if (!/^[a-z0-9-]{1,40}$/.test(slug))
    throw new ConfigError('--tenant must be 1 to 40 characters: a-z, 0-9 and -')
  const scopes = scopesOf(requireOption(values, 'scopes'))
  const { data: name } = nameText.safeParse(values.name ?? 'API key')
  if (name === undefined)
    throw new ConfigError('--name must be one line of 1 to 255 characters, without control characters')
  const expires_at = values.expires === undefined ? null : expiryOf(values.expires)
  const tenant = mode === 'live' ? await ensureTenant(sql, slug) : await twinOf(sql, slug)
  const requested = { name, scopes, expires_at }
  const key = await createApiKey(sql, tenant, requested, actorOf(tenant))
  print(`Key ${key.id} of ${tenantName(tenant)} (${tenant.id}), shown only now:\n\n  ${key.secret}\n`)
}

/** The twin, which is created on first use. Errors: ConfigError if the tenant does not exist, or cannot have a twin. */
async function twinOf(sql: Sql, slug: string): Promise<Tenant> {
  const live = await findTenant(sql, slug, 'live')
  if (live === undefined)
    throw new ConfigError(`There is no tenant "${slug}". Its first key of live mode creates it.`)
  return await ensureTwin(sql, live)
}

async function show(sql: Sql, tenant: Tenant): Promise<void> {
  print(`Contact of ${tenantName(tenant)}: ${tenant.contact_email ?? 'none'}`)
  print(`Id of ${tenantName(tenant)}: ${tenant.id}`)
  const keys = await listApiKeys(sql, tenant.id)
  if (keys.length === 0) return print(`${tenantName(tenant)} has no keys.`)
  for (const key of keys) {
    const state =
      key.revoked_at !== null
        ? `revoked ${key.revoked_at}`
        : key.expires_at !== null
          ? `${Date.parse(key.expires_at) <= Date.now() ? 'expired' : 'expires'} ${key.expires_at}`
          : 'valid'
    print(
      `${key.id}  ...${key.last_four}  ${state}  last used ${key.last_used_at ?? 'never'}  ${terminalText(key.name)}  [${key.scopes.join(' ')}]`,
    )
  }
}

async function rotate(sql: Sql, tenant: Tenant, values: KeyOptions): Promise<void> {
  const grace_s = Number(values.grace ?? '3600')
  if (!Number.isInteger(grace_s) || grace_s < 0) throw new ConfigError('--grace must be a number of seconds')
  const key = await rotateApiKey(sql, tenant, idOf(values), grace_s, actorOf(tenant))
  if (key === undefined) throw new ConfigError('There is no such key, or the key is revoked or expired.')
  const ends = key.expires_at === null ? '' : `, expires ${key.expires_at}`
  print(
    `Key ${key.id} of ${tenantName(tenant)}${ends}, shown only now; the old key works for ${grace_s} s more:\n\n  ${key.secret}\n`,
  )
}

async function revoke(sql: Sql, tenant: Tenant, values: KeyOptions): Promise<void> {
  if ((await revokeApiKey(sql, tenant.id, idOf(values), actorOf(tenant))) === undefined)
    throw new ConfigError('There is no such key, or the key is already revoked.')
  print('Revoked.')
}

async function setContact(sql: Sql, tenant: Tenant, values: KeyOptions): Promise<void> {
  const contact_email = contactOf(values)
  await setTenantContact(sql, tenant.id, contact_email, actorOf(tenant))
  print(`Contact of ${tenantName(tenant)}: ${contact_email ?? 'none'}`)
}

async function showOrSetDomains(
  sql: Sql,
  tenant: Tenant,
  values: KeyOptions,
  { EMAIL_FROM_DOMAINS }: Config,
): Promise<void> {
  const requested = parseList(values, isMailDomain, 'domains, separated by commas: shop.example')
  if (requested !== undefined)
    await setEmailDomains(
      sql,
      tenant.id,
      requested && [...new Set(requested.map(asciiDomain))],
      actorOf(tenant),
    )
  const domains = await findEmailDomains(sql, tenant.id)
  const view = domains === null ? defaultDomains(EMAIL_FROM_DOMAINS) : domains.join(', ') || 'none'
  print(`Domains of ${tenantName(tenant)}: ${view}`)
}

/**
 * Describes the allowed sender domains of a tenant without a list of its own. The text names EMAIL_FROM_DOMAINS,
 * because the API may run with another value of this variable than this command.
 */
function defaultDomains(domains: string[]): string {
  return domains.length === 0
    ? "no list of its own. EMAIL_FROM_DOMAINS is not set here: any domain except the system's own address"
    : `no list of its own. The domains of EMAIL_FROM_DOMAINS: ${domains.join(', ')}`
}

async function showOrSetSenders(sql: Sql, tenant: Tenant, values: KeyOptions): Promise<void> {
  const requested = parseList(
    values,
    isSmsSender,
    'numbers, messaging services (MG...) or names, separated by commas',
  )
  if (requested !== undefined)
    await setSmsSenders(sql, tenant.id, requested && [...new Set(requested)], actorOf(tenant))
  const senders = await findSmsSenders(sql, tenant.id)
  const view = senders === null ? 'any' : senders.join(', ') || 'none of its own'
  print(`Senders of SMS of ${tenantName(tenant)}: ${view}`)
}

/** The list to store. Null: the default (`--default`). Undefined: no option is given, and nothing is stored. */
function parseList(
  { only, none = false, default: use_default = false }: KeyOptions,
  isValid: (text: string) => boolean,
  what: string,
): string[] | null | undefined {
  if (Number(only !== undefined) + Number(none) + Number(use_default) > 1)
    throw new ConfigError('--only, --none and --default exclude each other.')
  if (use_default) return null
  if (none) return []
  if (only === undefined) return undefined
  const entries = list(only)
  const invalid = entries.find((text) => !isValid(text))
  if (invalid !== undefined || entries.length === 0 || entries.length > MAX_EMAIL_DOMAINS)
    throw new ConfigError(
      `--only must be 1 to ${MAX_EMAIL_DOMAINS} ${what}${invalid === undefined ? '' : `; "${invalid}" is not one`}`,
    )
  return entries
}

function actorOf({ id }: Tenant): Actor {
  return commandActor('npm run keys', id)
}

/** The email address of the contact, without a name; null for `--none`. */
function contactOf({ email, none }: KeyOptions): string | null {
  if (none === true && email !== undefined) throw new ConfigError('--email and --none exclude each other.')
  if (none === true || email === '') return null
  if (email === undefined) throw new ConfigError('Give --email or --none. See --help.')
  if (!isMailAddress(email) || bareAddress(email) !== email)
    throw new ConfigError('--email must be an email address, without a name')
  return email
}

function scopesOf(text: string): Scope[] {
  if (text === 'all') return [...SCOPES]
  const scopes = list(text)
  const unknown = scopes.find((scope) => !(SCOPES as readonly string[]).includes(scope))
  if (unknown !== undefined || scopes.length === 0) {
    const problem = unknown === undefined ? 'name at least one.' : `there is no scope "${unknown}".`
    throw new ConfigError(`--scopes: ${problem} Scopes: ${SCOPES.join(', ')}`)
  }
  return scopes as Scope[]
}

/** The expiry as ISO 8601 in UTC. A date without a time means the start of that day in UTC. */
function expiryOf(text: string): string {
  if (!z.union([z.iso.date(), z.iso.datetime({ offset: true })]).safeParse(text).success)
    throw new ConfigError('--expires must be a date like 2027-01-01, or a time like 2027-01-01T00:00:00Z')
  const expires = new Date(text)
  if (expires.getTime() <= Date.now())
    throw new ConfigError('--expires is in the past: the key would never be valid')
  return expires.toISOString()
}

function idOf(values: KeyOptions): string {
  const id = requireOption(values, 'id')
  if (!z.uuid().safeParse(id).success)
    throw new ConfigError(
      `There is no such key: "${id}" is not a key id. \`npm run keys -- list\` shows the keys.`,
    )
  return id
}

if (import.meta.main) await runAsProgram(keysCommand)
