// Users in browsers: membership, cookies and sign-in.
import { createHmac, randomBytes } from 'node:crypto'
import { hashPassword } from 'better-auth/crypto'
import { expect } from 'vitest'
import { addMember } from '#domain/people/members.ts'
import type { MemberRole } from '#domain/people/role.ts'
import { createUser } from '#domain/people/users.ts'
import type { Answer } from './client.ts'
import { eventually } from './payments.ts'
import type { World } from './world.ts'

export const PASSWORD = 'correct horse battery'
let hash: Promise<string> | undefined
let counter = 0

export type Browser = {
  /** The cookies that the next request sends, by name. */
  cookies: Map<string, string>
  send(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
  get(path: string, headers?: Record<string, string>): Promise<Answer>
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
}
export type Person = { user_id: string; email: string }

/**
 * A browser at the dashboard. Each browser has its own address, which the dashboard reads if this machine is a trusted
 * proxy.
 */
export function createBrowser(url: string, address = freshAddress()): Browser {
  const cookies = new Map<string, string>()
  async function send(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const response = await fetch(`${url}${path}`, {
      method,
      redirect: 'manual',
      headers: {
        origin: url,
        'sec-fetch-site': 'same-origin',
        'x-forwarded-for': address,
        cookie: Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; '),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      if (/max-age=0\b/i.test(cookie)) cookies.delete(name!)
      else cookies.set(name!, value!)
    }
    const text = await response.text()
    const json = response.headers.get('content-type')?.includes('application/json') === true && text !== ''
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: json ? JSON.parse(text) : undefined,
    }
  }
  return {
    cookies,
    send,
    get: (path, headers) => send('GET', path, undefined, headers),
    post: (path, body, headers) => send('POST', path, body, headers),
  }
}

/**
 * Creates a user with the password `PASSWORD`. With `role`, the user becomes a member of the tenant. Default of
 * `tenant_id`: the world's first tenant.
 */
export async function createPerson(
  { sql, tenant_id: first }: World,
  {
    role,
    tenant_id = first,
    is_operator = false,
  }: { role?: MemberRole; tenant_id?: string; is_operator?: boolean } = {},
): Promise<Person> {
  counter += 1
  const email = `${role ?? 'nobody'}-${counter}-${randomBytes(3).toString('hex')}@people.example`
  const password_hash = await (hash ??= hashPassword(PASSWORD))
  const user_id = await sql.begin(async (tx) => {
    const id = (await createUser(tx, {
      name: `Person ${counter}`,
      email,
      email_verified: true,
      password_hash,
      is_operator,
    }))!
    if (role !== undefined) await addMember(tx, { tenant_id, user_id: id, role })
    return id
  })
  return { user_id, email }
}

export async function tryPassword(browser: Browser, email: string, password = PASSWORD): Promise<Answer> {
  return await browser.post('/api/auth/sign-in/email', { email, password })
}

/** Signs a user in. Returns the user's browser. */
export async function signIn(url: string, { email }: { email: string }, password?: string): Promise<Browser> {
  const browser = createBrowser(url)
  // On a slow machine the dashboard may answer 503 while it opens its first connections.
  const answer = await eventually(async () => {
    const tried = await tryPassword(browser, email, password)
    expect(tried.status).not.toBe(503)
    return tried
  })
  expect([answer.status, answer.text]).toEqual([200, expect.stringContaining('token')])
  return browser
}

/** Creates a user and signs the user in. */
export async function signedInAs(
  world: World,
  options: Parameters<typeof createPerson>[1],
): Promise<Browser & Person> {
  const person = await createPerson(world, options)
  return { ...(await signIn(world.dashboard_url, person)), ...person }
}

/** The current one-time code for the URI in the QR code (RFC 6238). */
export function codeOf(totp_uri: string, steps_later = 0): string {
  const text = new URL(totp_uri).searchParams.get('secret')!
  const bits = Array.from(text.replaceAll('=', ''), (letter) =>
    'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(letter).toString(2).padStart(5, '0'),
  ).join('')
  const secret = Buffer.from(bits.match(/.{8}/g)!.map((byte) => Number.parseInt(byte, 2)))
  const step = Buffer.alloc(8)
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + steps_later))
  const mac = createHmac('sha1', secret).update(step).digest()
  const at = mac.at(-1)! & 15
  return String((mac.readUInt32BE(at) & 0x7fffffff) % 1_000_000).padStart(6, '0')
}

export type Entry = {
  action: string
  actor: string
  details: Record<string, unknown>
  answers: number | null
}

/** The audit log entries of a user, oldest first. */
export async function entriesOf({ sql }: World, { email }: { email: string }): Promise<Entry[]> {
  return await sql<Entry[]>`
    select action, actor, details - 'expects_outcome' as details, answers from audit_entries where actor = ${email} order by seq`
}

function freshAddress(): string {
  counter += 1
  return `203.0.113.${counter % 250}`
}
