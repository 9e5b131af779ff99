// Renders templates, in threads that are ended when their time is used up: a template is its tenant's, and nothing that
// it does may hold up this process.
import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import type { Json } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { createGate, createGates } from '#core/gate.ts'
import { limitWork, type ThreadBegan } from '#core/thread-work.ts'
import { createUsedUp } from '#core/used-up.ts'
import type { TemplateFault, Source } from './engine.ts'
import { isHtml, partsOfTemplate, type TemplateParts, type RenderedTemplate } from './template.ts'

const tooMany = () =>
  new AppError('rate_limited', {
    retry_after_s: 1,
    message: 'Too many of your templates wait to be rendered: send fewer at once.',
  })
/** One of each tenant at once. What waits is counted with its template and its variables. */
const OF_A_TENANT = {
  running: 1,
  queue: { waiting: 1_000, bytes: 8 * 1024 * 1024, wait_ms: 5_000, refuse: tooMany },
}
const tooManyOfAll = () =>
  new AppError('overloaded', { message: 'Too many templates wait to be rendered; nothing was accepted.' })
/** Two at once, so that hostile templates cannot take every processor. One of each tenant waits here. */
const OF_ALL = {
  running: 2,
  queue: { waiting: 256, bytes: 32 * 1024 * 1024, wait_ms: 5_000, refuse: tooManyOfAll },
}
/** Of a processor, for all parts of a template. */
const LIMIT_MS = 1_000
/** For a thread to begin; on a busy machine that can take long, and is no fault of the template. */
const BEGIN_MS = 15_000
const LIMITS = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 16, stackSizeMb: 4 }
const THREAD = new URL('./render-thread.ts', import.meta.url)

/** What the thread is given, and what it tells. `variables` null: the sources are only compiled. */
export type RenderGiven = { sources: Record<string, Source>; variables: TemplateVariables | null }
export type RenderTold =
  | ThreadBegan
  | { rendered: Record<string, string> }
  | { part: string; fault: TemplateFault }
/** `used_up`: its time or memory. `starved`: the machine gave the thread no time. */
type Rendering = Exclude<RenderTold, ThreadBegan> | 'used_up' | 'starved'

export type TemplateVariables = Record<string, Json>

const of_tenant = createGates(OF_A_TENANT)
const gate = createGate(OF_ALL)
const idle = new Set<Worker>()
/** The hashes of what was to be rendered. */
const used_up = createUsedUp()

/**
 * Throws `template_invalid` for a template of a tenant that does not compile; `rate_limited` or `overloaded` when too many
 * wait.
 */
export async function checkTemplate(
  tenant_id: string,
  parts: TemplateParts,
  signal?: AbortSignal,
): Promise<void> {
  await ask(tenant_id, parts, null, signal)
}

/**
 * What a template of a tenant says with these variables; null where it has no such part. Throws `template_invalid`,
 * with the line and the variable at fault; `rate_limited` or `overloaded` when too many wait; and the reason of `signal`
 * when that aborts while it waits.
 */
export async function renderTemplate(
  template: TemplateParts & { tenant_id: string },
  variables: TemplateVariables,
  signal?: AbortSignal,
): Promise<RenderedTemplate> {
  const rendered = await ask(template.tenant_id, template, variables, signal)
  for (const [part, text] of Object.entries(rendered)) {
    if (!text.isWellFormed() || text.includes('\u0000'))
      throw invalid(part, nowhere('it renders to what is no text'))
    if (part === 'subject' && /\p{Cc}/u.test(text))
      throw invalid(part, nowhere('it renders to more than one line'))
    if (part === 'subject' && text.trim() === '') throw invalid(part, nowhere('it renders to nothing'))
  }
  const { subject = null, text = null, html = null, body = null } = rendered
  return { subject, text, html, body }
}

async function ask(
  tenant_id: string,
  template: TemplateParts,
  variables: TemplateVariables | null,
  signal: AbortSignal | undefined,
): Promise<Record<string, string>> {
  const sources = Object.fromEntries(
    partsOfTemplate(template).map(([part, text]) => [part, { text, html: isHtml(part) }]),
  )
  const given = JSON.stringify({ sources, variables } satisfies RenderGiven)
  const waiter = { signal, bytes: given.length }
  const outcome = await of_tenant(
    tenant_id,
    () => gate(() => askOnce(tenant_id, { sources, variables }, given), waiter),
    waiter,
  )
  if (outcome === 'starved')
    throw new AppError('overloaded', { message: 'Templates cannot be rendered now; nothing was accepted.' })
  if (outcome === 'used_up') throw invalid(null, nowhere('it takes too long'))
  // While it is only compiled, the part is a field of the request.
  if ('fault' in outcome)
    throw invalid(outcome.part, outcome.fault, variables === null ? outcome.part : undefined)
  return outcome.rendered
}

async function askOnce(tenant_id: string, given: RenderGiven, as_text: string): Promise<Rendering> {
  const hash = createHash('sha256').update(as_text).digest('base64')
  if (used_up.has(tenant_id, hash)) return 'used_up'
  const outcome = await inThread(given)
  if (outcome === 'used_up') used_up.add(tenant_id, hash)
  return outcome
}

async function inThread(given: RenderGiven): Promise<Rendering> {
  const [thread = newThread()] = idle
  idle.delete(thread)
  const { promise, resolve } = Promise.withResolvers<Rendering>()
  let exited: Rendering = 'starved'
  const end = () => resolve(exited)
  const begin = setTimeout(end, BEGIN_MS)
  let stop = () => clearTimeout(begin)
  const hear = (told: RenderTold) => {
    stop()
    if (!('began_at_cpu_us' in told)) return resolve(told)
    exited = 'used_up'
    stop = limitWork(thread, told, LIMIT_MS, resolve)
  }
  thread.on('message', hear).once('exit', end)
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  thread.postMessage(given)
  const outcome = await promise
  stop()
  thread.off('message', hear).off('exit', end)
  if (typeof outcome === 'string') await thread.terminate()
  else idle.add(thread)
  return outcome
}

function newThread(): Worker {
  const thread = new Worker(THREAD, { env: {}, execArgv: [], resourceLimits: LIMITS })
  thread.unref()
  // It used up its memory, or its stack; it ends.
  thread.on('error', () => {})
  thread.once('exit', () => idle.delete(thread))
  return thread
}

function nowhere(message: string): TemplateFault {
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
