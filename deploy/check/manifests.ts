// Checks Kubernetes manifests: `node deploy/check/manifests.ts < manifests.yaml` names each value and each field that
// the API of Kubernetes, of KEDA or of the Prometheus Operator does not have, and exits with 1 if there is one.
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule'
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor'
import { ScaledObject } from '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject'
import { Deployment } from 'kubernetes-models/apps/v1/Deployment'
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import { Job } from 'kubernetes-models/batch/v1/Job'
import { Ingress } from 'kubernetes-models/networking.k8s.io/v1/Ingress'
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap'
import { Namespace } from 'kubernetes-models/v1/Namespace'
import { Secret } from 'kubernetes-models/v1/Secret'
import { Service } from 'kubernetes-models/v1/Service'
import { text } from 'node:stream/consumers'
import { parseAllDocuments } from 'yaml'

export type Manifest = {
  apiVersion: string
  kind: string
  metadata: { name: string }
  [field: string]: unknown
}

const MODELS = [
  ConfigMap,
  Deployment,
  HorizontalPodAutoscaler,
  Ingress,
  Job,
  Namespace,
  NetworkPolicy,
  PodDisruptionBudget,
  PrometheusRule,
  ScaledObject,
  Secret,
  Service,
  ServiceMonitor,
]

/** The manifests of a YAML text. Throws if the text is not YAML. */
export function parseManifests(yaml: string): Manifest[] {
  return parseAllDocuments(yaml).flatMap((document) => {
    const [error] = document.errors
    if (error !== undefined) throw error
    const manifest = document.toJS() as Manifest | null
    return manifest === null ? [] : [manifest]
  })
}

/** The problems of a manifest, each in one line. A field that the schema does not know is a problem too. */
export function manifestProblems(manifest: Manifest): string[] {
  const { apiVersion, kind, metadata } = manifest
  const model = MODELS.find((one) => one.apiVersion === apiVersion && one.kind === kind)
  const name = `${kind} ${metadata?.name}`
  if (model === undefined) return [`${name}: ${apiVersion} has no such kind here`]
  const unread = new Map<string, boolean>()
  try {
    // Not with an instance of the model: it would copy the fields.
    model.prototype.validate.call(observeReads(manifest, '', unread))
  } catch (error) {
    return [`${name}: ${(error as Error).message}`]
  }
  return Array.from(unread.keys(), (path) => `${name}: there is no field ${path}`)
}

/**
 * Wraps a value and all values in it. `unread` gets the path of each field and loses it when the field is read: the
 * validators ignore fields that they do not know, so these are never read.
 */
function observeReads(value: unknown, path: string, unread: Map<string, boolean>): unknown {
  if (typeof value !== 'object' || value === null) return value
  const wrapped = Object.entries(value).map(([key, inner]): [string, unknown] => {
    const at = `${path}/${key}`
    unread.set(at, true)
    return [key, observeReads(inner, at, unread)]
  })
  const copy = Array.isArray(value) ? wrapped.map(([, inner]) => inner) : Object.fromEntries(wrapped)
  return new Proxy(copy, {
    get(target, key, receiver) {
      unread.delete(`${path}/${String(key)}`)
      return Reflect.get(target, key, receiver) as unknown
    },
  })
}

if (import.meta.main) {
  const manifests = parseManifests(await text(process.stdin))
  const problems = manifests.flatMap(manifestProblems)
  for (const problem of problems) console.error(problem)
  console.log(`${manifests.length} manifests, ${problems.length} problems`)
  if (problems.length > 0 || manifests.length === 0) process.exitCode = 1
}
