// One table of variables: what parses them is what `--help` and docs/configuration.md describe.
import { execFile } from 'node:child_process'
import { glob, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { variables } from '#core/config/help.ts'
import { isReadBy } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import { API_VERSION, EVENT_TYPES } from '#providers/stripe/events.ts'
import { runCommand } from '#test/commands.ts'
import { configurationPage, exampleEnvironment, misplacedVariables } from '#test/configuration.ts'

test('docs/configuration.md and .env.example have every variable as the table has it (npx vitest run test/help.test.ts -u writes them)', async () => {
  expect(misplacedVariables()).toEqual([])
  await expect(configurationPage()).toMatchFileSnapshot('../docs/configuration.md')
  await expect(exampleEnvironment()).toMatchFileSnapshot('../.env.example')
})

test.for([
  ['api', 'src/api/main.ts'],
  ['webhooks', 'src/webhooks/main.ts'],
  ['worker', 'src/workers/main.ts'],
  ['dashboard', 'src/dashboard/main.ts'],
  ['migrate', 'src/commands/migrate.ts'],
  ['start', 'src/start/main.ts'],
] as [ProcessName, string][])('%s --help lists exactly the variables that it reads', async ([name, file]) => {
  const { code, stdout, stderr } = await runCommand(file, ['--help'], { DATABASE_POOL: 'wrong' })
  expect([code, stderr]).toEqual([0, ''])
  const listed = Array.from(stdout.matchAll(/^ {2}([A-Z_]+) /gm), ([, variable]) => variable)
  const read = variables().filter((variable) => isReadBy(variable.name, name))
  expect(listed).toEqual(read.map((variable) => variable.name))
  expect(stdout).not.toContain('[object')
  // What is needed is not said to be brought where it is unset.
  expect(stdout).not.toMatch(/Unset, `npm start`/)
  for (const { name: variable, example } of read) expect(stdout).toContain(`Example: ${variable}=${example}`)
})

test.for([
  ['api', 'api'],
  ['webhooks', 'webhooks'],
  ['worker', 'workers'],
  ['dashboard', 'dashboard'],
] as [ProcessName, string][])(
  '%s is said to read every variable that its files read',
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

test('npm run stripe prints the events that its endpoint has to send, and the version of their API', async () => {
  const stripe = (...args: string[]) => runCommand('src/commands/stripe.ts', args)
  expect(await stripe('events')).toMatchObject({ code: 0, stdout: `${EVENT_TYPES.join('\n')}\n` })
  expect(await stripe('events', '--comma')).toMatchObject({ code: 0, stdout: `${EVENT_TYPES.join()}\n` })
  expect((await stripe('--help')).stdout).toContain(API_VERSION)
  expect(await stripe('secrets')).toMatchObject({
    code: 1,
    stderr: 'There is no command "secrets". See --help.\n',
  })
})

test.each(['jobs', 'queues', 'users'])(
  'npm run %s takes no command that is none of its own',
  async (name) => {
    expect(await runCommand(`src/commands/${name}.ts`, ['toString'])).toMatchObject({
      code: 1,
      stderr: 'There is no command "toString". See --help.\n',
    })
  },
)

test('a command whose reader is gone ends without a word', async () => {
  const command = 'node src/commands/jobs.ts --help | true'
  const { stderr } = await promisify(execFile)('sh', ['-c', command], { cwd: new URL('..', import.meta.url) })
  expect(stderr).toBe('')
})
