// What the files of compose.yaml, deploy/kubernetes and deploy/systemd give each process.
import { glob, readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import { z } from 'zod'
import { parseManifests, type Manifest } from '../../deploy/check/manifests.ts'

export const PROCESSES = ['api', 'webhooks', 'worker', 'dashboard', 'migrate'] as const
export type DeployedProcess = (typeof PROCESSES)[number]
/** Of a process: its variables with their values, the files that it can read as secrets, and its time to stop. */
export type Deployed = { variables: Record<string, string>; secret_files: string[]; grace_s: number }

/** The text of a file of this repository. */
export const readRepositoryFile = (path: string): Promise<string> =>
  readFile(new URL(`../../${path}`, import.meta.url), 'utf8')

const composeService = z.object({
  environment: z.record(z.string(), z.string()).default({}),
  secrets: z.array(z.string()).default([]),
  stop_grace_period: z.string().optional(),
  read_only: z.boolean().optional(),
  cap_drop: z.array(z.string()).optional(),
  command: z.array(z.string()).default([]),
  deploy: z.object({ replicas: z.int() }).default({ replicas: 1 }),
  security_opt: z.array(z.string()).optional(),
})
const composeFile = z.object({
  services: z.record(z.string(), composeService),
  secrets: z.record(z.string(), z.object({ file: z.string() })),
})

/** The parsed compose.yaml, for its schema. */
export const COMPOSE_YAML: unknown = parse(await readRepositoryFile('compose.yaml'), { merge: true })
export const COMPOSE = composeFile.parse(COMPOSE_YAML)

const kustomization = z.object({
  resources: z.array(z.string()).default([]),
  patches: z
    .array(z.object({ path: z.string(), target: z.object({ name: z.string().optional() }) }))
    .default([]),
  images: z.array(z.object({ name: z.string() })).default([]),
  configMapGenerator: z.array(z.object({ literals: z.array(z.string()).default([]) })).default([]),
  secretGenerator: z.array(z.object({ name: z.string(), files: z.array(z.string()) })).default([]),
})

export async function readKustomization(path: string): Promise<z.output<typeof kustomization>> {
  return kustomization.parse(parse(await readRepositoryFile(path)))
}

/** The manifests of Kubernetes by file, without patches and kustomizations. */
export const MANIFESTS = new Map<string, Manifest[]>()
for await (const file of glob('deploy/kubernetes/**/*.yaml'))
  if (!/(kustomization|\/pod|\/deployment)\.yaml$/.test(file))
    MANIFESTS.set(file, parseManifests(await readRepositoryFile(file)))

function manifestsOf(kind: string): Manifest[] {
  return [...MANIFESTS.values()].flat().filter((one) => one.kind === kind)
}

/** The manifest of this kind and name. Throws if there is none. */
export function manifestNamed(kind: string, name: string): Manifest {
  const found = manifestsOf(kind).find(({ metadata }) => metadata.name === name)
  if (found === undefined) throw new Error(`there is no ${kind} ${name}`)
  return found
}

const workload = z.object({
  template: z.object({
    spec: z.object({
      terminationGracePeriodSeconds: z.number().default(30),
      containers: z.tuple([
        z.object({ env: z.array(z.object({ name: z.string(), value: z.string() })).default([]) }),
      ]),
      volumes: z.tuple([z.object({ secret: z.object({ secretName: z.string() }) })]),
    }),
  }),
})

function inCompose(name: DeployedProcess): Deployed {
  const { environment, secrets, stop_grace_period = '' } = COMPOSE.services[name]!
  return {
    variables: environment,
    secret_files: secrets.map((secret) => `/run/secrets/${secret}`),
    grace_s: Number.parseInt(stop_grace_period, 10),
  }
}

async function inKubernetes(name: DeployedProcess): Promise<Deployed> {
  const kind = name === 'migrate' ? 'Job' : 'Deployment'
  const { spec } = workload.parse(manifestNamed(kind, `sluice-${name}`)['spec']).template
  const [{ env }] = spec.containers
  const [{ secret }] = spec.volumes
  const overlays = await Promise.all(
    ['minimal', 'production'].map((overlay) =>
      readKustomization(`deploy/kubernetes/overlays/${overlay}/kustomization.yaml`),
    ),
  )
  const { files } = overlays
    .flatMap(({ secretGenerator }) => secretGenerator)
    .find((one) => one.name === secret.secretName)!
  const common = [
    ...(await readRepositoryFile('deploy/kubernetes/base/sluice.env')).trim().split('\n'),
    ...overlays.flatMap(({ configMapGenerator }) => configMapGenerator.flatMap(({ literals }) => literals)),
  ]
  return {
    variables: {
      ...Object.fromEntries(common.map((line) => line.split('=') as [string, string])),
      ...Object.fromEntries(env.map((one) => [one.name, one.value])),
    },
    secret_files: files.map((file) => `/run/secrets/sluice/${file.replace(/=.*|^[^=]*\//, '')}`),
    grace_s: spec.terminationGracePeriodSeconds,
  }
}

async function inSystemd(name: DeployedProcess): Promise<Deployed> {
  const unit = await readRepositoryFile(`deploy/systemd/sluice-${name}.service`)
  const all = (key: string) =>
    Array.from(unit.matchAll(new RegExp(`^${key}=(.*)$`, 'gm')), ([, value]) => value!)
  return {
    variables: Object.fromEntries(all('Environment').map((line) => line.split('=') as [string, string])),
    secret_files: all('LoadCredential').map((line) => `%d/${line.split(':')[0]}`),
    grace_s: Number(all('TimeoutStopSec')[0]),
  }
}

/** What each place gives a process. */
export const PLACES: Record<string, (name: DeployedProcess) => Deployed | Promise<Deployed>> = {
  'compose.yaml': inCompose,
  'deploy/kubernetes': inKubernetes,
  'deploy/systemd': inSystemd,
}

const networkPolicy = z.object({
  policyTypes: z.array(z.string()),
  egress: z
    .array(
      z.object({
        to: z.array(z.unknown()).default([]),
        ports: z.array(z.object({ protocol: z.string(), port: z.number() })).default([]),
      }),
    )
    .default([]),
})

/** Each rule of a policy about outgoing connections, with the name of the policy. */
export function egressRules(): { policy: string; to: unknown[]; ports: number[] }[] {
  return manifestsOf('NetworkPolicy').flatMap(({ metadata, spec }) =>
    networkPolicy.parse(spec).egress.map(({ to, ports }) => ({
      policy: metadata.name,
      to,
      ports: ports.map(({ port }) => port),
    })),
  )
}
