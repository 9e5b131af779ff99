// The tracer: samples spans, and sends them to a collector by OTLP over HTTP. A collector that is slow or down costs
// spans, and nothing else.
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Link,
  type Span as ApiSpan,
} from '@opentelemetry/api'
import { ExportResultCode, parseKeyPairsIntoRecord, parseTraceParent } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  RandomIdGenerator,
  SamplingDecision,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type Sampler,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import type { ProcessName } from '../config/row.ts'
import { PROCESS_NAME } from '../heartbeat.ts'
import { metrics, useOpenMetrics } from '../metrics.ts'
import { throttle } from '../seldom.ts'
import { VERSION } from '../version.ts'
import type { TraceSpan, SpanOptions, Tracer } from './span.ts'

type Warn = (facts: object, text: string) => void

/** The maximum number of ended spans that wait to be sent or are being sent; further spans are dropped. */
const MAX_WAITING_SPANS = 4_096
const MAX_SPANS_PER_EXPORT = 512
const EXPORT_INTERVAL_MS = 1_000
const EXPORT_TIMEOUT_MS = 10_000
const CLOSE_TIMEOUT_MS = 3_000
const WARNING_INTERVAL_MS = 60_000
const LIMITS = { attributeCountLimit: 32, attributeValueLengthLimit: 256, linkCountLimit: 8 }

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
  internal: SpanKind.INTERNAL,
}

/** `endpoint`: the URL of the collector, without `/v1/traces`. */
export function openTracer(endpoint: string, config: Config, process: ProcessName, warn: Warn): Tracer {
  useOpenMetrics()
  const sampler = samplingLinked(samplerOf(config))
  const ids = new RandomIdGenerator()
  // The sampler decides by the id of the trace before a span is made, and the SDK asks it again with the same id.
  let next_trace_id = ''
  const provider = new TracerProvider({
    resource: resourceOf(config, process),
    sampler,
    spanLimits: LIMITS,
    idGenerator: { generateSpanId: () => ids.generateSpanId(), generateTraceId: () => next_trace_id },
    spanProcessors: [boundedProcessor(endpoint, config, warn)],
  })
  const sdk = provider.getTracer('sluice', VERSION)

  return {
    start(name, { kind, attributes = {}, parent, link, started_at = performance.now() }: SpanOptions) {
      const parent_context = parent ? parseTraceParent(parent) : null
      const context =
        parent_context === null
          ? ROOT_CONTEXT
          : trace.setSpanContext(ROOT_CONTEXT, { ...parent_context, isRemote: true })
      const trace_id = (next_trace_id = parent_context?.traceId ?? ids.generateTraceId())
      const links = linksTo(link)
      const { decision } = sampler.shouldSample(context, trace_id, name, KINDS[kind], attributes, links)
      if (decision !== SamplingDecision.RECORD_AND_SAMPLED) return undefined
      const options = { kind: KINDS[kind], attributes, links, startTime: started_at }
      return wrapped(sdk.startSpan(name, options, context))
    },
    async close() {
      await Promise.race([
        provider.shutdown().catch(() => {}),
        sleep(CLOSE_TIMEOUT_MS, undefined, { ref: false }),
      ])
    },
  }
}

function wrapped(span: ApiSpan): TraceSpan {
  const { traceId, spanId } = span.spanContext()
  return {
    trace_id: traceId,
    traceparent: `00-${traceId}-${spanId}-01`,
    ended: false,
    set: (attributes) => void span.setAttributes(attributes),
    link: (traceparent) => void span.addLinks(linksTo(traceparent)),
    end(failure, at = performance.now()) {
      if (this.ended) return
      this.ended = true
      if (failure !== undefined)
        span.setAttribute('error.type', failure).setStatus({ code: SpanStatusCode.ERROR })
      span.end(at)
    },
  }
}

function linksTo(traceparent: string | null | undefined): Link[] {
  const context = traceparent ? parseTraceParent(traceparent) : null
  return context === null ? [] : [{ context }]
}

function samplerOf({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio }: Config): Sampler {
  const root = name.endsWith('always_on')
    ? new AlwaysOnSampler()
    : name.endsWith('always_off')
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(ratio)
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root
}

/** A trace with a link to a sampled span is sampled too: otherwise, most later attempts would be missing. */
function samplingLinked(sampler: Sampler): Sampler {
  return {
    shouldSample: (...about) =>
      about[5].some(({ context }) => (context.traceFlags & TraceFlags.SAMPLED) !== 0)
        ? { decision: SamplingDecision.RECORD_AND_SAMPLED }
        : sampler.shouldSample(...about),
    toString: () => `SamplingLinked{${String(sampler)}}`,
  }
}

function resourceOf({ OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES }: Config, process: ProcessName) {
  const further = parseKeyPairsIntoRecord(OTEL_RESOURCE_ATTRIBUTES)
  return resourceFromAttributes({
    'service.name': `sluice-${process}`,
    'service.version': VERSION,
    'service.instance.id': PROCESS_NAME,
    ...further,
    ...(OTEL_SERVICE_NAME !== undefined && { 'service.name': OTEL_SERVICE_NAME }),
  })
}

/**
 * Batches spans for the exporter. The SDK bounds only the spans that wait, and does not report those that it drops:
 * spans that are being sent count here too.
 */
function boundedProcessor(
  endpoint: string,
  { OTEL_EXPORTER_OTLP_HEADERS }: Config,
  warn: Warn,
): SpanProcessor {
  let waiting = 0
  const notSent = throttle(
    (suppressed, reason: string | undefined) =>
      warn({ reason, suppressed }, 'OTEL_EXPORTER_OTLP_ENDPOINT: spans could not be sent and are lost'),
    WARNING_INTERVAL_MS,
  )
  const otlp = new OTLPTraceExporter({
    url: `${endpoint}/v1/traces`,
    headers: parseKeyPairsIntoRecord(OTEL_EXPORTER_OTLP_HEADERS),
    timeoutMillis: EXPORT_TIMEOUT_MS,
    concurrencyLimit: Math.ceil(MAX_WAITING_SPANS / MAX_SPANS_PER_EXPORT),
  })
  const batches = new BatchSpanProcessor({
    exporter: {
      export: (spans, done) =>
        otlp.export(spans, (result) => {
          waiting -= spans.length
          if (result.code !== ExportResultCode.SUCCESS) {
            metrics.spansDropped.inc({ reason: 'not_sent' }, spans.length)
            notSent(result.error?.message)
          }
          done(result)
        }),
      shutdown: () => otlp.shutdown(),
    },
    maxQueueSize: MAX_WAITING_SPANS,
    maxExportBatchSize: MAX_SPANS_PER_EXPORT,
    scheduledDelayMillis: EXPORT_INTERVAL_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  })
  return {
    onStart() {},
    onEnd(span) {
      if (waiting >= MAX_WAITING_SPANS) return metrics.spansDropped.inc({ reason: 'full' })
      waiting += 1
      batches.onEnd(span)
    },
    forceFlush: () => batches.forceFlush(),
    shutdown: () => batches.shutdown(),
  }
}
