// Spans, without OpenTelemetry's own types: processes without traces load nothing of it. A trace context is the text of
// a W3C `traceparent`, which names a span.

type SpanKind = 'server' | 'client' | 'producer' | 'consumer' | 'internal'
type SpanAttributes = Record<string, string | number | undefined>

export type SpanOptions = {
  kind: SpanKind
  attributes?: SpanAttributes
  /** The trace context of the parent. Default: the span begins a trace. */
  parent?: string | null | undefined
  /** The trace context of a span of another trace. If that span is sampled, so is this one. */
  link?: string | null | undefined
  /** On the clock of `performance.now()`. Default: now. */
  started_at?: number
}

type SpanEnd = {
  /** Why the operation failed, as a short code. Default: it did not fail. */
  failure?: string | undefined
  /** On the clock of `performance.now()`. Default: now. */
  at?: number
  /**
   * Finds the trace context of a further link. It is called after the end. Without an answer within 100 ms, the span
   * has no such link.
   */
  findLink?: () => Promise<string | null>
}

/** A span that will be exported. */
export type TraceSpan = {
  trace_id: string
  trace_context: string
  ended: boolean
  set(attributes: SpanAttributes): void
  /** Adds a link to the span that a trace context names. An invalid text is ignored. */
  link(trace_context: string): void
  end(how?: SpanEnd): void
}

export type Tracer = {
  /** Undefined if the sampler drops the span, or too many traces begin. */
  start(name: string, options: SpanOptions): TraceSpan | undefined
  /** Sends the remaining spans, with a time limit. Never rejects. */
  close(): Promise<void>
}
