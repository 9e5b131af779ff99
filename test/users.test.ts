// `npm run users` manages the users of the dashboard and records each act.
import { hostname, userInfo } from 'node:os'
import { expect } from 'vitest'
import { usersCommand } from '#commands/users.ts'
import { WITHOUT_USER_NAME, runCommand, runHere } from '#test/commands.ts'
import { createBrowser, createPerson, PASSWORD, signIn, tryPassword } from '#test/people.ts'
import { testIn, type World } from '#test/world.ts'

let url: string
const test = testIn({ parts: ['api', 'dashboard'], env: { TRUSTED_PROXIES: '127.0.0.1/32' } })
test.beforeAll(async ({ world }) => {
  url = world.dashboard_url
})

const runUsers = (world: World, ...args: string[]) =>
  runHere(usersCommand, args, { DATABASE_URL: world.config.DATABASE_URL, DASHBOARD_URL: url })

test('a first owner is invited, becomes an operator and is listed', async ({ world }) => {
  const invited = await runUsers(
    world,
    'invite',
    '--tenant',
    'new-shop',
    '--email',
    'Ada@shop.example',
    '--role',
    'owner',
  )
  const token = /\/invitation\/([\w-]{43})\n/.exec(invited.stdout)![1]
  expect(invited.stdout).toContain(`  ${url}/invitation/${token}`)
  const guest = createBrowser(url)
  const accepted = await guest.post(`/api/invitations/${token}/accept`, { name: 'Ada', password: PASSWORD })
  expect(accepted.body).toEqual({ email: 'ada@shop.example' })
  const browser = await signIn(url, { email: 'ada@shop.example' })
  expect((await browser.get('/api/session')).body).toMatchObject({
    tenant: { slug: 'new-shop' },
    role: 'owner',
  })
  const unverified = await runUsers(world, 'operator', '--email', 'ada@shop.example')
  expect([unverified.code, unverified.stderr]).toEqual([
    1,
    expect.stringMatching(/invited to new-shop by npm run users.*--unverified-address/),
  ])
  for (const options of [['--unverified-address'], ['--off']]) {
    expect((await runUsers(world, 'operator', '--email', 'ada@shop.example', ...options)).code).toBe(0)
    expect((await browser.get('/api/session')).body.is_operator).toBe(options[0] !== '--off')
  }
  const { stdout } = await runUsers(world, 'list', '--tenant', 'new-shop', '--json')
  expect(JSON.parse(stdout)).toMatchObject([
    { email: 'ada@shop.example', tenants: [{ slug: 'new-shop', role: 'owner' }], sessions: 1 },
  ])
  const listAs = async (name: string) => {
    await world.sql`update users set name = ${name} where email = 'ada@shop.example'`
    return (await runUsers(world, 'list')).stdout
  }
  expect(await listAs('Ada')).toContain('ada@shop.example  Ada  new-shop (owner)')
  // As versions before could store it.
  expect(await listAs('Ada\u001b[2J\nEve')).toContain('ada@shop.example  Ada [2J Eve  new-shop (owner)')
  const repeated = await runUsers(
    world,
    'invite',
    '--tenant',
    'new-shop',
    '--email',
    'ada@shop.example',
    '--role',
    'admin',
  )
  expect([repeated.code, repeated.stderr]).toEqual([1, 'ada@shop.example is already a member of new-shop.\n'])
  const entries = await world.sql`
    select action, actor from audit_entries where actor like '% (npm run users)' order by seq`
  expect(entries.map(({ action }) => action)).toEqual([
    'members.invite',
    'users.make_operator',
    'users.unmake_operator',
  ])
  for (const { actor } of entries) expect(actor).toContain(`${userInfo().username}@`)
  expect(JSON.stringify(await world.sql`select * from audit_entries`)).not.toContain(token)
})

test('the command ends sessions, removes a second factor and sets a generated password', async ({
  world,
}) => {
  const { email, user_id } = await createPerson(world, { role: 'support' })
  const sessionStatus = async (browser: ReturnType<typeof createBrowser>) =>
    (await browser.get('/api/session')).status
  const first = await signIn(url, { email })
  expect((await runUsers(world, 'end-sessions', '--email', email)).stdout).toBe(
    `${email} is signed out everywhere.\n`,
  )
  expect(await sessionStatus(first)).toBe(401)

  await world.sql`update users set two_factor_enabled = true where id = ${user_id}`
  await world.sql`insert into user_two_factors (id, user_id, secret, backup_codes) values (${user_id}, ${user_id}, 'x', 'x')`
  const partial = createBrowser(url)
  expect((await tryPassword(partial, email)).body.twoFactorRedirect).toBe(true)
  expect((await runUsers(world, 'reset-second-factor', '--email', email)).code).toBe(0)
  const second = await signIn(url, { email })

  await world.sql`
    insert into user_passkeys (id, user_id, public_key, credential_id, counter, device_type, backed_up)
    values (${user_id}, ${user_id}, 'x', 'x', 0, 'singleDevice', false)`
  const { password } = JSON.parse((await runUsers(world, 'set-password', '--email', email, '--json')).stdout)
  expect(await sessionStatus(second)).toBe(401)
  expect((await tryPassword(createBrowser(url), email)).status).toBe(401)
  await signIn(url, { email }, password)
  expect(await world.sql`select from user_passkeys where user_id = ${user_id}`).toEqual([])
  expect(JSON.stringify(await world.sql`select * from audit_entries`)).not.toContain(password)
})

test('the error of a missing or invalid option names the option', async ({ world }) => {
  const mistakes: [string[], string][] = [
    [['invite', '--tenant', 'a', '--email', 'a@b.example'], '--role is missing. See --help.'],
    [
      ['invite', '--tenant', 'a', '--email', 'a@b.example', '--role', 'boss'],
      '--role must be one of owner, admin',
    ],
    [['invite', '--tenant', 'A B', '--email', 'a@b.example', '--role', 'owner'], '--tenant must be 1 to 40'],
    [['operator', '--email', 'Ada <a@b.example>'], '--email must be an email address, without a name'],
    [['set-password', '--email', 'nobody@b.example'], 'There is no user with the address nobody@b.example.'],
    [['end-sessions'], '--email is missing. See --help.'],
  ]
  for (const [args, message] of mistakes) {
    const { code, stdout, stderr } = await runUsers(world, ...args)
    expect([args, code, stdout]).toEqual([args, 1, ''])
    expect(stderr).toContain(message)
  }
  expect((await runUsers(world, '--help')).stdout).toContain('npm run users -- invite')
})

test('an act of an operating system account without a name is recorded with the uid', async ({ world }) => {
  const { email } = await createPerson(world, {})
  const result = await runCommand('src/commands/users.ts', ['end-sessions', '--email', email], {
    DATABASE_URL: world.config.DATABASE_URL,
    ...WITHOUT_USER_NAME,
  })
  expect(result).toMatchObject({ code: 0, stderr: '' })
  const [entry] = await world.sql`select actor from audit_entries order by seq desc limit 1`
  expect(entry).toEqual({ actor: `uid ${process.getuid!()}@${hostname()} (npm run users)` })
})
