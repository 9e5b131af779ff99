// Renders templates in worker threads, which are terminated at their time limit: tenants write the templates, and a
// template must not block this process.
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'
import { ROOT } from '#core/root.ts'
import { limitCpuTime, type ThreadStart } from '#core/thread-work.ts'
import { createExhaustedList } from '#core/used-up.ts'
import type { TemplateFault, TemplateSource } from './engine.ts'
import { isHtml, partsOfTemplate, type TemplateParts, type RenderedTemplate } from './template.ts'

const tenantQueueFull = () =>
  new AppError('rate_limited', {
    limited_by: 'templates',
    retry_after_s: 1,
    message: 'Too many of your templates wait to be rendered: send fewer at once.',
  })
/** One rendering per tenant at a time. `bytes` counts the templates and variables of waiting renderings. */
const TENANT_GATE = {
  running: 1,
  queue: { waiting: 1_000, bytes: 8 * 1024 * 1024, wait_ms: 5_000, refuse: tenantQueueFull },
}
const renderQueueFull = () =>
  new AppError('overloaded', {
    limited_by: 'templates',
    message: 'Too many templates wait to be rendered. Nothing was accepted: retry later.',
  })
/**
 * Two renderings at a time, so that hostile templates cannot occupy every processor. At most one per tenant waits
 * here.
 */
const GLOBAL_GATE = {
  running: 2,
  queue: { waiting: 256, bytes: 32 * 1024 * 1024, wait_ms: 5_000, refuse: renderQueueFull },
}
/** The CPU time for all parts of a template. */
const MAX_CPU_MS = 1_000
/** The maximum time for a thread to start. On a busy machine the start is slow even for a harmless template. */
const START_TIMEOUT_MS = 15_000
const RESOURCE_LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const THREAD = new URL('src/domain/templates/render-thread.ts', ROOT)

/** The messages to and from the thread. `variables` null: the sources are only compiled. */
export type RenderRequest = { sources: Record<string, TemplateSource>; variables: TemplateVariables | null }
export type RenderMessage =
  | ThreadStart
  | { rendered: Record<string, string> }
  | { part: string; fault: TemplateFault }
/** `used_up`: the time or memory limit was exceeded. `starved`: the machine had no CPU time for the thread. */
type Rendering = Exclude<RenderMessage, ThreadStart> | 'used_up' | 'starved'

export type TemplateVariables = Record<string, Json>

const tenant_gates = createGates(TENANT_GATE)
const global_gate = createGate(GLOBAL_GATE)
const idle_threads = new Set<Worker>()
/** The hashes of requests that exceeded a limit. */
const used_up = createExhaustedList()

/**
 * Compiles a template. Throws `template_invalid` if it does not compile, and `rate_limited` or `overloaded` when too
 * many templates wait.
 */
export async function checkTemplate(
  tenant_id: string,
  parts: TemplateParts,
  signal?: AbortSignal,
): Promise<void> {
  await renderQueued(tenant_id, parts, null, signal)
}

/**
 * Renders a template with these variables; parts that the template does not have are null. Throws `template_invalid`
 * with the line and the variable, `rate_limited` or `overloaded` when too many templates wait, and the reason of
 * `signal` when it aborts while waiting.
 */
export async function renderTemplate(
  template: TemplateParts & { tenant_id: string },
  variables: TemplateVariables,
  signal?: AbortSignal,
): Promise<RenderedTemplate> {
  const rendered = await renderQueued(template.tenant_id, template, variables, signal)
  for (const [part, text] of Object.entries(rendered)) {
    if (!text.isWellFormed() || text.includes('\u0000'))
      throw invalid(part, faultWithoutLine('its output is not valid text'))
    if (part === 'subject' && /\p{Cc}/u.test(text))
      throw invalid(part, faultWithoutLine('its output has more than one line'))
    if (part === 'subject' && text.trim() === '') throw invalid(part, faultWithoutLine('its output is empty'))
  }
  const { subject = null, text = null, html = null, body = null } = rendered
  return { subject, text, html, body }
}

async function renderQueued(
  tenant_id: string,
  template: TemplateParts,
  variables: TemplateVariables | null,
  signal: AbortSignal | undefined,
): Promise<Record<string, string>> {
  const sources = Object.fromEntries(
    partsOfTemplate(template).map(([part, text]) => [part, { text, html: isHtml(part) }]),
  )
  const request = JSON.stringify({ sources, variables } satisfies RenderRequest)
  const waiter = { signal, bytes: request.length }
  const outcome = await tenant_gates(
    tenant_id,
    () => global_gate(() => renderOnce(tenant_id, { sources, variables }, request), waiter),
    waiter,
  )
  if (outcome === 'starved')
    throw new AppError('overloaded', {
      limited_by: 'templates',
      message: 'Templates cannot be rendered now. Nothing was accepted: retry later.',
    })
  if (outcome === 'used_up') throw invalid(null, faultWithoutLine('it takes too long'))
  // If a template is only checked (`variables` null), its parts are fields of the request, so the error names the
  // field.
  if ('fault' in outcome)
    throw invalid(outcome.part, outcome.fault, variables === null ? outcome.part : undefined)
  return outcome.rendered
}

async function renderOnce(tenant_id: string, request: RenderRequest, as_text: string): Promise<Rendering> {
  const hash = createHash('sha256').update(as_text).digest('base64')
  if (used_up.has(tenant_id, hash)) return 'used_up'
  const outcome = await inThread(request)
  if (outcome === 'used_up') used_up.add(tenant_id, hash)
  return outcome
}

async function inThread(request: RenderRequest): Promise<Rendering> {
  const [thread = newThread()] = idle_threads
  idle_threads.delete(thread)
  const { promise, resolve } = Promise.withResolvers<Rendering>()
  let exited: Rendering = 'starved'
  const end = () => resolve(exited)
  const start_timer = setTimeout(end, START_TIMEOUT_MS)
  let stop = () => clearTimeout(start_timer)
  const onMessage = (message: RenderMessage) => {
    stop()
    if (!('started_at_cpu_us' in message)) return resolve(message)
    exited = 'used_up'
    stop = limitCpuTime(thread, message, MAX_CPU_MS, resolve)
  }
  thread.on('message', onMessage).once('exit', end)
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  thread.postMessage(request)
  const outcome = await promise
  stop()
  thread.off('message', onMessage).off('exit', end)
  if (typeof outcome === 'string') await thread.terminate()
  else idle_threads.add(thread)
  return outcome
}

function newThread(): Worker {
  const thread = new Worker(THREAD, { env: {}, execArgv: [], resourceLimits: RESOURCE_LIMITS })
  thread.unref()
  // The thread exceeded its memory or stack limit, and ends.
  thread.on('error', () => {})
  thread.once('exit', () => idle_threads.delete(thread))
  return thread
}

function faultWithoutLine(message: string): TemplateFault {
  return { message, line: null, variable: null }
}

function invalid(part: string | null, { message, line, variable }: TemplateFault, param?: string): AppError {
  const where = [part, line !== null && `line ${line}`].filter(Boolean).join(', ')
  return new AppError('template_invalid', {
    message: `The template does not render: ${message}${where && ` (${where})`}.`,
    context: { line, variable },
    ...(param !== undefined && { param }),
  })
}
