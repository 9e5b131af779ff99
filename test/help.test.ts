// The table of variables matches `--help`, docs/configuration.md and the variables that processes read; commands refuse
// invalid arguments.
import { execFile } from 'node:child_process'
import { glob, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { auditCommand } from '#commands/audit.ts'
import { jobsCommand } from '#commands/jobs.ts'
import { keysCommand } from '#commands/keys.ts'
import { ledgerCommand } from '#commands/ledger.ts'
import { listenCommand } from '#commands/listen.ts'
import type { CommandEntry } from '#commands/program.ts'
import { queuesCommand } from '#commands/queues.ts'
import { recoverCommand } from '#commands/recover.ts'
import { usersCommand } from '#commands/users.ts'
import { variables } from '#core/config/help.ts'
import { isReadBy } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import { API_VERSION, EVENT_TYPES } from '#providers/stripe/events.ts'
import { runCommand, runHere } from '#test/commands.ts'
import { configurationPage, exampleEnvironment, misplacedVariables } from '#test/configuration.ts'

test('docs/configuration.md and .env.example match the table of variables (npx vitest run test/help.test.ts -u updates them)', async () => {
  expect(misplacedVariables()).toEqual([])
  await expect(configurationPage()).toMatchFileSnapshot('../docs/configuration.md')
  await expect(exampleEnvironment()).toMatchFileSnapshot('../.env.example')
})

test('npm run screenshots -- --help prints its help and starts nothing', async () => {
  const { code, stdout, stderr } = await runCommand('test/support/screenshots.ts', ['--help'])
  expect([code, stderr]).toEqual([0, ''])
  expect(stdout).toMatch(/^npm run screenshots: .*\n[^]*--help/)
})

test.for([
  ['api', 'src/api/main.ts'],
  ['webhooks', 'src/webhooks/main.ts'],
  ['worker', 'src/workers/main.ts'],
  ['dashboard', 'src/dashboard/main.ts'],
  ['migrate', 'src/commands/migrate.ts'],
  ['start', 'src/start/main.ts'],
] as [ProcessName, string][])(
  '%s --help lists exactly the variables that the process reads',
  async ([name, file]) => {
    const { code, stdout, stderr } = await runCommand(file, ['--help'], { DATABASE_POOL: 'wrong' })
    expect([code, stderr]).toEqual([0, ''])
    const listed = Array.from(stdout.matchAll(/^ {2}([A-Z_]+) /gm), ([, variable]) => variable)
    const read = variables().filter((variable) => isReadBy(variable.name, name))
    expect(listed).toEqual(read.map((variable) => variable.name))
    expect(stdout).not.toContain('[object')
    // The help of a process does not mention the defaults of `npm start`, because the process itself has no such
    // defaults.
    expect(stdout).not.toMatch(/Unset, `npm start`/)
    for (const { name: variable, example } of read)
      expect(stdout).toContain(`Example: ${variable}=${example}`)
  },
)

test.for([
  ['api', 'api'],
  ['webhooks', 'webhooks'],
  ['worker', 'workers'],
  ['dashboard', 'dashboard'],
] as [ProcessName, string][])(
  'the table of variables lists every variable that the files of %s read',
  async ([name, folder]) => {
    const used = new Set<string>()
    for await (const file of glob(`src/${folder}/**/*.ts`))
      for (const [, variable] of (await readFile(file, 'utf8')).matchAll(/\bconfig\.([A-Z_]+)/g))
        used.add(variable!)
    expect(used.size).toBeGreaterThan(0)
    const reported = variables().filter((variable) => isReadBy(variable.name, name))
    expect(reported.map((variable) => variable.name)).toEqual(expect.arrayContaining([...used]))
  },
)

test('npm run stripe prints the event types that the webhook endpoint at Stripe needs, and the API version', async () => {
  const stripe = (...args: string[]) => runCommand('src/commands/stripe.ts', args)
  expect(await stripe('events')).toMatchObject({ code: 0, stdout: `${EVENT_TYPES.join('\n')}\n` })
  expect(await stripe('events', '--comma')).toMatchObject({ code: 0, stdout: `${EVENT_TYPES.join()}\n` })
  expect((await stripe('--help')).stdout).toContain(API_VERSION)
  expect(await stripe('secrets')).toMatchObject({
    code: 1,
    stderr: 'There is no command "secrets". See --help.\n',
  })
})

test.each(['jobs', 'ledger', 'queues', 'users'])('npm run %s refuses an unknown command', async (name) => {
  expect(await runCommand(`src/commands/${name}.ts`, ['toString'])).toMatchObject({
    code: 1,
    stderr: 'There is no command "toString". See --help.\n',
  })
})

test('the help of commands fits into 120 columns', async () => {
  const commands = [auditCommand, jobsCommand, keysCommand, ledgerCommand, listenCommand, queuesCommand]
  for (const command of [...commands, recoverCommand, usersCommand]) {
    const { stdout } = await runHere(command, ['--help'])
    expect(stdout.split('\n').filter((line) => line.length > 120)).toEqual([])
  }
})

test('commands refuse surplus arguments, and name their usage', async () => {
  const cases: [command: CommandEntry, args: string[], usage: string][] = [
    [jobsCommand, ['list', 'x'], 'npm run jobs -- list [--state open]'],
    [jobsCommand, ['show', 'id', 'x'], 'npm run jobs -- show    <job id>'],
    [keysCommand, ['list', 'x'], 'npm run keys -- list   --tenant acme'],
    [ledgerCommand, ['cancel', 'id', 'x'], 'npm run ledger -- cancel <proposal id>'],
    [queuesCommand, ['list', 'x'], 'npm run queues'],
    [queuesCommand, ['pause', 'payments', 'x'], 'npm run queues -- pause  [<queue>]'],
    [recoverCommand, ['status', 'x'], 'npm run recover'],
    [recoverCommand, ['release', 'x'], 'npm run recover -- release --messages send|discard'],
    [recoverCommand, ['compare', 'x'], 'npm run recover -- compare'],
    [recoverCommand, ['rehearse', 'x'], 'npm run recover -- rehearse --backup'],
    [usersCommand, ['list', 'x'], 'npm run users -- list'],
  ]
  for (const [command, args, usage] of cases) {
    const { code, stderr } = await runHere(command, args)
    expect([code, stderr]).toEqual([1, expect.stringContaining(usage)])
    expect(stderr).toMatch(/^"x" is not an argument of "\w+"\. Usage:\n/)
  }
  for (const args of [['--yes'], ['release', '--yes'], ['seal', '--reason', 'x'], ['switched', '--undo']]) {
    const { code, stderr } = await runHere(recoverCommand, args)
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^--\w+ is not an option of "\w+"\. Usage:\n {2}npm run recover/),
    ])
  }
  for (const command of [auditCommand, listenCommand])
    expect((await runHere(command, ['x'])).stderr).toContain("Unexpected argument 'x'")
})

test('a command whose output pipe is closed ends without an error', async () => {
  const command = 'node src/commands/jobs.ts --help | true'
  const { stderr } = await promisify(execFile)('sh', ['-c', command], { cwd: new URL('..', import.meta.url) })
  expect(stderr).toBe('')
})
