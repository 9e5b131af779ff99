// Traces: the span of the running request or job. OpenTelemetry is loaded only when traces are on, and a request that
// is not sampled has no span.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { Histogram } from 'prom-client'
import type { Config } from './config.ts'
import type { ProcessName } from './config/row.ts'
import type { Fragment, Sql, Tx } from './db.ts'
import type { TraceSpan, SpanOptions, Tracer } from './tracing/span.ts'

const NOTHING_TO_CLOSE = { close: () => Promise.resolve() }

const running = new AsyncLocalStorage<TraceSpan | undefined>()
let tracer: Tracer | undefined

/**
 * Turns traces on if the configuration names a collector. `close` turns them off again. `warn` is called once a minute
 * while spans cannot be sent.
 */
export async function startTracing(
  config: Config,
  process: ProcessName,
  warn: (facts: object, text: string) => void,
): Promise<Pick<Tracer, 'close'>> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return NOTHING_TO_CLOSE
  const { openTracer } = await import('./tracing/tracer.ts')
  const opened = openTracer(config.OTEL_EXPORTER_OTLP_ENDPOINT, config, process, warn)
  tracer = opened
  return {
    async close() {
      tracer = undefined
      await opened.close()
    },
  }
}

/** Whether traces are on. */
export function isTracing(): boolean {
  return tracer !== undefined
}

/** Starts a span. Undefined if traces are off or the span is not sampled. */
export function startSpan(name: string, options: SpanOptions): TraceSpan | undefined {
  return tracer?.start(name, options)
}

/** A span to be started under the current span. */
export type ChildSpan = Omit<SpanOptions, 'parent' | 'link'> & { name: string }

/** Starts a child of the current span. Without a current span: undefined, and `describe` is not called. */
export function startChildSpan(describe: () => ChildSpan): TraceSpan | undefined {
  const parent = currentSpan()
  if (parent === undefined) return undefined
  const { name, ...options } = describe()
  return tracer?.start(name, { ...options, parent: parent.trace_context })
}

/** The options of the span of an atomic step in the database, which includes the wait for its statement. */
export function statementSpan(step: string): SpanOptions {
  return { kind: 'client', attributes: { 'db.system.name': 'postgresql', 'db.query.summary': step } }
}

/** The attributes of a span that sends or processes a wake-up. */
export function messagingAttributes(
  operation: 'send' | 'process',
  { queue, id }: { queue: string; id: string },
): SpanOptions['attributes'] {
  return {
    'messaging.system': 'bullmq',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.destination.name': queue,
    'messaging.message.id': id,
  }
}

/** Ends the span when `work` ends, as failed if it rejects. */
export async function endSpanAfter<T>(span: TraceSpan, work: Promise<T>): Promise<T> {
  try {
    const value = await work
    span.end()
    return value
  } catch (error) {
    span.end({ failure: failureCode(error) })
    throw error
  }
}

/**
 * The span whose request or job runs here. A timer or a connection that outlives the span does not belong to it any
 * more.
 */
export function currentSpan(): TraceSpan | undefined {
  if (tracer === undefined) return undefined
  const span = running.getStore()
  return span?.ended === true ? undefined : span
}

/** Runs `work` as a part of the span; undefined: as a part of no span. */
export function withSpan<T>(span: TraceSpan | undefined, work: () => T): T {
  return tracer === undefined || running.getStore() === span ? work() : running.run(span, work)
}

/**
 * The column `trace_context` for an insert, and its value: that of the current span. Both are empty
 * without a span, so that the other statements and rows are as they are without traces.
 */
export function traceColumn(sql: Sql | Tx): { name: Fragment; value: Fragment } {
  const span = currentSpan()
  if (span !== undefined) return { name: sql`, trace_context`, value: sql`, ${span.trace_context}::text` }
  const empty = sql``
  return { name: empty, value: empty }
}

/** Observes a duration in seconds, with the trace of the span as its exemplar. */
export function observeTraced<Labels extends Record<string, string | number>>(
  histogram: Histogram<Extract<keyof Labels, string>>,
  labels: Labels,
  seconds: number,
  span = currentSpan(),
): void {
  histogram.observe({ labels, value: seconds, exemplarLabels: traceLabels(span) })
}

/** The labels of an exemplar, and the fields of a log line. Empty without a span. */
export function traceLabels(span: TraceSpan | undefined): Record<string, string> {
  return span === undefined ? {} : { trace_id: span.trace_id }
}

/** The code of an error, or the name of its class. Its message may contain what must not leave this process. */
function failureCode(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}
