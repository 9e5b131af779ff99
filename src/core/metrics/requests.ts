// Metrics of requests and of the process, and the count of requests that limits refused.
import { Counter, Gauge, Histogram } from 'prom-client'
import { AppError, LIMIT_NAMES, type ErrorCode } from '../errors.ts'
import { COMMIT, VERSION } from '../version.ts'
import { SHORT_BUCKETS, registers } from './registry.ts'

const LIMIT_CODES: ReadonlySet<ErrorCode> = new Set(['rate_limited', 'overloaded'])

export const requestsMetrics = {
  request: new Histogram({
    name: 'sluice_http_request_seconds',
    help: 'Time to answer a request',
    labelNames: ['listener', 'method', 'route', 'status'],
    buckets: SHORT_BUCKETS,
    enableExemplars: true,
    registers,
  }),
  areas: new Gauge({
    name: 'sluice_area_deployed',
    help: '1 if an area of the API is deployed, 0 if it is switched off, not available yet, or its provider has no credentials',
    labelNames: ['area'],
    registers,
  }),
  spansDropped: new Counter({
    name: 'sluice_trace_spans_dropped_total',
    help: 'Spans that were not sent to the collector, by reason: full (too many waited), not_sent (the collector refused or did not answer), limited (the first spans of traces beyond TRACES_PER_SECOND)',
    labelNames: ['reason'],
    registers,
  }),
  logLinesLost: new Counter({
    name: 'sluice_log_lines_lost_total',
    help: 'Log lines that could not be written, by reason: the error code (ENOSPC, EPIPE, ...), or slow (their reader did not keep up)',
    labelNames: ['reason'],
    registers,
  }),
  buildInfo: new Gauge({
    name: 'sluice_build_info',
    help: 'Always 1; the labels are the version, the commit of the sources and the version of Node',
    labelNames: ['version', 'commit', 'node'],
    registers,
  }),
  requestsLimited: new Counter({
    name: 'sluice_requests_limited_total',
    help: `Requests that a limit refused, by the limit: ${LIMIT_NAMES.join(', ')}. key, tenant and address are budgets of requests; debt: earlier requests of the key were expensive`,
    labelNames: ['reason'],
    registers,
  }),
}

requestsMetrics.buildInfo.set({ version: VERSION, commit: COMMIT, node: process.version }, 1)

/** Counts a refused request if a limit refused it. */
export function countLimited(error: unknown): void {
  if (error instanceof AppError && LIMIT_CODES.has(error.code))
    requestsMetrics.requestsLimited.inc({ reason: error.limited_by ?? 'other' })
}
