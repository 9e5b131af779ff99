// Spans, without OpenTelemetry's own types: processes without traces load nothing of it.

type SpanKind = 'server' | 'client' | 'producer' | 'consumer' | 'internal'
type SpanAttributes = Record<string, string | number | undefined>

export type SpanOptions = {
  kind: SpanKind
  attributes?: SpanAttributes
  /** The `traceparent` of the parent. Default: the span begins a trace. */
  parent?: string | null | undefined
  /** The `traceparent` of a span of another trace. If that span is sampled, so is this one. */
  link?: string | null | undefined
  /** On the clock of `performance.now()`. Default: now. */
  started_at?: number
}

/** A span that will be exported. */
export type TraceSpan = {
  trace_id: string
  /** The W3C `traceparent` that names this span as the parent. */
  traceparent: string
  ended: boolean
  set(attributes: SpanAttributes): void
  /** Adds a link to the span of this `traceparent`. */
  link(traceparent: string): void
  /**
   * `failure`: why the operation failed, as a short code. `at`: on the clock of `performance.now()`; default: now.
   */
  end(failure?: string, at?: number): void
}

export type Tracer = {
  /** Undefined if the sampler drops the span. */
  start(name: string, options: SpanOptions): TraceSpan | undefined
  /** Sends the remaining spans, with a time limit. Never rejects. */
  close(): Promise<void>
}
