// The tracer: samples spans, and sends them to a collector by OTLP over HTTP. A collector that is slow or down costs
// spans, and nothing else.
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Link,
  type Span as ApiSpan,
} from '@opentelemetry/api'
import { ExportResultCode, parseKeyPairsIntoRecord, parseTraceParent } from '@opentelemetry/core'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  RandomIdGenerator,
  SamplingDecision,
  TracerProvider,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config.ts'
import type { ProcessName } from '../config/row.ts'
import { PROCESS_NAME } from '../heartbeat.ts'
import { metrics, useOpenMetrics } from '../metrics.ts'
import { throttle } from '../seldom.ts'
import { withTimeout } from '../timeout.ts'
import { VERSION } from '../version.ts'
import { createRateBound, samplerOf } from './sampling.ts'
import type { TraceSpan, SpanOptions, Tracer } from './span.ts'

type Warn = (facts: object, text: string) => void

/** The maximum number of ended spans that wait to be sent or are being sent; further spans are dropped. */
const MAX_WAITING_SPANS = 4_096
const MAX_SPANS_PER_EXPORT = 512
const EXPORT_INTERVAL_MS = 1_000
const EXPORT_TIMEOUT_MS = 10_000
/** How long the last spans may take at the end of the process, from the beginning of the oldest export. */
const CLOSE_TIMEOUT_MS = 2_000
const CLOSE_TIMEOUT_AFTER_FAILURE_MS = 500
const LINK_TIMEOUT_MS = 100
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
  const sampler = samplerOf(config)
  const ids = new RandomIdGenerator()
  // The sampler decides by the id of the trace before a span is made, and the SDK asks it again with the same id.
  let next_trace_id = ''
  const exports = openExporter(endpoint, config, warn)
  const provider = new TracerProvider({
    resource: resourceOf(config, process),
    sampler,
    spanLimits: LIMITS,
    idGenerator: { generateSpanId: () => ids.generateSpanId(), generateTraceId: () => next_trace_id },
    spanProcessors: [exports.processor],
  })
  const sdk = provider.getTracer('sluice', VERSION)
  const mayBegin = createTraceBound(config, warn)
  const finding_links = new Set<Promise<void>>()

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
      // A request counts as a new trace, even if its caller began the trace.
      if ((parent_context === null || kind === 'server') && !mayBegin()) return undefined
      const options = { kind: KINDS[kind], attributes, links, startTime: started_at }
      return traceSpanOf(sdk.startSpan(name, options, context), finding_links)
    },
    async close() {
      const ends_at = performance.now() + CLOSE_TIMEOUT_MS
      await Promise.all(finding_links)
      const left_ms = Math.max(0, Math.min(ends_at, exports.endsWaitAt()) - performance.now())
      await Promise.race([provider.shutdown().catch(() => {}), sleep(left_ms, undefined, { ref: false })])
    },
  }
}

/** Counts and reports the traces that do not begin because of TRACES_PER_SECOND. */
function createTraceBound({ TRACES_PER_SECOND }: Config, warn: Warn): () => boolean {
  const isWithinBound = createRateBound(TRACES_PER_SECOND)
  const report = throttle(
    (suppressed) =>
      warn(
        { suppressed },
        `TRACES_PER_SECOND: more than ${TRACES_PER_SECOND} traces a second are sampled, and the others are left out`,
      ),
    WARNING_INTERVAL_MS,
  )
  return () => {
    if (isWithinBound()) return true
    metrics.spansDropped.inc({ reason: 'limited' })
    report()
    return false
  }
}

/** `finding_links`: gets a promise for each link that is being looked for. */
function traceSpanOf(span: ApiSpan, finding_links: Set<Promise<void>>): TraceSpan {
  const { traceId, spanId } = span.spanContext()
  return {
    trace_id: traceId,
    trace_context: `00-${traceId}-${spanId}-01`,
    ended: false,
    set: (attributes) => void span.setAttributes(attributes),
    link: (trace_context) => void span.addLinks(linksTo(trace_context)),
    end({ failure, at = performance.now(), findLink } = {}) {
      if (this.ended) return
      this.ended = true
      if (failure !== undefined)
        span.setAttribute('error.type', failure).setStatus({ code: SpanStatusCode.ERROR })
      if (findLink === undefined) return span.end(at)
      const ending = endLinked(span, at, findLink)
      finding_links.add(ending)
      void ending.finally(() => finding_links.delete(ending))
    },
  }
}

/** Ends a span, with a link if one is found in time. Never rejects. */
async function endLinked(span: ApiSpan, at: number, findLink: () => Promise<string | null>): Promise<void> {
  const found = await withTimeout(findLink(), LINK_TIMEOUT_MS).catch(() => null)
  span.addLinks(linksTo(found)).end(at)
}

function linksTo(trace_context: string | null | undefined): Link[] {
  const context = trace_context ? parseTraceParent(trace_context) : null
  return context === null ? [] : [{ context }]
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

type Exporter = {
  processor: SpanProcessor
  /**
   * When the end of the process stops to wait for the collector: `CLOSE_TIMEOUT_MS` after the start of an export
   * without an answer, and soon if the last export failed.
   */
  endsWaitAt(): number
}

/**
 * Batches spans and exports them. The SDK bounds only the spans that wait, and does not report those that it drops:
 * spans that are being sent count here too.
 */
function openExporter(endpoint: string, { OTEL_EXPORTER_OTLP_HEADERS }: Config, warn: Warn): Exporter {
  let waiting = 0
  let has_failed = false
  /** When each export began that has no answer yet, oldest first. */
  const began_at = new Map<object, number>()
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
      export: (spans, done) => {
        began_at.set(spans, performance.now())
        otlp.export(spans, (result) => {
          waiting -= spans.length
          began_at.delete(spans)
          has_failed = result.code !== ExportResultCode.SUCCESS
          if (has_failed) {
            metrics.spansDropped.inc({ reason: 'not_sent' }, spans.length)
            notSent(result.error?.message)
          }
          done(result)
        })
      },
      shutdown: () => otlp.shutdown(),
    },
    maxQueueSize: MAX_WAITING_SPANS,
    maxExportBatchSize: MAX_SPANS_PER_EXPORT,
    scheduledDelayMillis: EXPORT_INTERVAL_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  })
  return {
    processor: {
      onStart() {},
      onEnd(span) {
        if (waiting >= MAX_WAITING_SPANS) return metrics.spansDropped.inc({ reason: 'full' })
        waiting += 1
        batches.onEnd(span)
      },
      forceFlush: () => batches.forceFlush(),
      shutdown: () => batches.shutdown(),
    },
    endsWaitAt() {
      if (has_failed) return performance.now() + CLOSE_TIMEOUT_AFTER_FAILURE_MS
      const [oldest = Infinity] = began_at.values()
      return oldest + CLOSE_TIMEOUT_MS
    },
  }
}
