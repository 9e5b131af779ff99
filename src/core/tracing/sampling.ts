// Which spans are recorded: the sampler that the configuration names, and a bound on new traces.
import { TraceFlags } from '@opentelemetry/api'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  type Sampler,
} from '@opentelemetry/sdk-trace'
import type { Config } from '../config.ts'

/** The share of requests that are traced in production. */
const PRODUCTION_RATIO = 0.01

/** The sampler of a process. A trace with a link to a sampled span is sampled too. */
export function samplerOf({
  NODE_ENV,
  OTEL_TRACES_SAMPLER: name,
  OTEL_TRACES_SAMPLER_ARG: ratio = NODE_ENV === 'production' ? PRODUCTION_RATIO : 1,
}: Config): Sampler {
  const root = name.endsWith('always_on')
    ? new AlwaysOnSampler()
    : name.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(ratio)
  return samplingLinked(name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root)
}

/** Also samples a span with a link to a sampled span: a later attempt begins a trace of its own, with such a link. */
function samplingLinked(sampler: Sampler): Sampler {
  return {
    shouldSample: (...about) =>
      about[5].some(({ context }) => (context.traceFlags & TraceFlags.SAMPLED) !== 0)
        ? { decision: SamplingDecision.RECORD_AND_SAMPLED }
        : sampler.shouldSample(...about),
    toString: () => `SamplingLinked{${String(sampler)}}`,
  }
}

/** Returns a function that returns true at most `per_second` times a second. That many calls may come at once. */
export function createRateBound(per_second: number): () => boolean {
  let remaining = per_second
  let refilled_at = performance.now()
  return () => {
    const now = performance.now()
    remaining = Math.min(per_second, remaining + ((now - refilled_at) / 1000) * per_second)
    refilled_at = now
    if (remaining < 1) return false
    remaining -= 1
    return true
  }
}
