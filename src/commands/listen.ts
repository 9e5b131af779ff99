// `npm run listen`: follows the events of a tenant and posts each to a local receiver, signed like a webhook delivery.
import { createHmac } from 'node:crypto'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { ConfigError, loadConfig } from '#core/config.ts'
import { list } from '#core/config/list.ts'
import { isWebhookSecret, webhookSecretOf } from '#core/standard-webhooks.ts'
import { errorText } from '#core/startup.ts'
import { unknownTypeMessage, EVENT_TYPE_PATTERNS, matchEventTypes } from '#domain/events.ts'
import { findNewest, followFeed, InvalidOption, type Feed, type FollowedEvent } from './listen/feed.ts'
import { forwardEvent, type Forwarded } from './listen/forward.ts'
import { print, printError, terminalText } from './print.ts'
import { runAsProgram } from './program.ts'
import { readDevFile } from './dev-file.ts'

const HELP = `sluice listen: posts the events of a tenant to a receiver that you develop. You need no webhook endpoint, and the
receiver need not be reachable from the internet.

  npm run listen -- --forward-to http://localhost:4000/hook [--types payment.*,refund.succeeded] [--after 0]

--forward-to  the receiver. Each event is posted once, in order, with the body, headers and signature of a webhook. An
              event that the receiver does not accept is printed and not sent again.
--types       events to post, separated by commas: *, all of a resource as in payment.*, or single types. Default: all.
--after       start after the event with this sequence; 0: with the oldest stored event. Default: with the next new
              event.
--key         API key with the scope events:read. SLUICE_API_KEY is safer: other users of this machine can see
              arguments. Default: the key of the \`npm start\` that runs in this folder.
--url         the API. Default: the API of the \`npm start\` that runs in this folder, or http://127.0.0.1:3000.
--secret      signing secret of the webhooks: whsec_ and 24 to 64 bytes in base64. Default: a secret that is derived
              from the key, so the same key always gives the same secret. It is printed at the start.

While the API is unavailable, requests are retried; no event is lost or posted twice. Stop with Ctrl-C.
Exit code: 0 stopped by a signal, 1 fatal error (the key is refused, the URL is not the API), 2 invalid options.`

const OPTIONS = {
  'forward-to': { type: 'string' },
  types: { type: 'string' },
  after: { type: 'string' },
  key: { type: 'string' },
  url: { type: 'string' },
  secret: { type: 'string' },
  help: { type: 'boolean', short: 'h', default: false },
} as const

const DevFile = z.object({ api_url: z.string(), api_key: z.string() })
const DEFAULT_URL = 'http://127.0.0.1:3000'

/** `after` undefined: only events that are newer than the newest stored event. */
type ListenOptions = Pick<Feed, 'url' | 'key' | 'key_from'> & {
  forward_to: string
  types: string[]
  after: number | undefined
  secret: string
}

/** `signal`: stops the command. */
export async function listenCommand(
  args: string[],
  env: NodeJS.ProcessEnv,
  signal: AbortSignal = new AbortController().signal,
): Promise<number> {
  let options
  try {
    options = optionsOf(args, env)
  } catch (error) {
    printError(errorText(error))
    return 2
  }
  if (options === null) {
    print(HELP)
    return 0
  }
  try {
    return await listen(options, signal)
  } catch (error) {
    if (signal.aborted) return 0
    printError(errorText(error))
    return error instanceof InvalidOption ? 2 : 1
  }
}

async function listen(options: ListenOptions, signal: AbortSignal): Promise<never> {
  const { forward_to, types, secret } = options
  const notice = (text: string) => printError(`${clockTime()}  ${text}`)
  const feed: Feed = { ...options, signal, notice }
  const after = options.after ?? (await findNewest(feed))
  print(
    `The events of ${options.url} after sequence ${after} are forwarded to ${forward_to}: ${types.join(', ')}`,
  )
  print(`Signing secret: ${secret}`)
  for await (const event of followFeed(feed, { after, types })) {
    const forwarded = await forwardEvent(event, { url: forward_to, secret, signal })
    signal.throwIfAborted()
    print(deliveryLine(event, forwarded))
  }
  throw new Error('the event feed ended unexpectedly: start this command again')
}

function deliveryLine({ type, sequence }: FollowedEvent, { status, error, duration_ms }: Forwarded): string {
  const outcome = status === null ? `no answer: ${error}` : String(status)
  return [
    clockTime(),
    terminalText(type).padEnd(28),
    String(sequence).padStart(6),
    outcome,
    `${duration_ms} ms`,
  ].join('  ')
}

/** Local time of day. */
function clockTime(): string {
  return new Date().toTimeString().slice(0, 8)
}

/** The options of the command; null for --help. Throws ConfigError if an option is invalid. */
function optionsOf(args: string[], env: NodeJS.ProcessEnv): ListenOptions | null {
  const { values } = parseArgs({ args, options: OPTIONS })
  if (values.help) return null
  if (values['forward-to'] === undefined) throw new ConfigError('--forward-to is missing. See --help.')
  const { DATA_DIR } = loadConfig(env)
  const started = readDevFile(DATA_DIR, DevFile)
  const keys = [
    ['--key', values.key],
    ['SLUICE_API_KEY', env['SLUICE_API_KEY']],
    [`the start in ${DATA_DIR}`, started?.api_key],
  ] as const
  const [key_from, key] = keys.find(([, each]) => each !== undefined && each !== '') ?? []
  if (key_from === undefined || key === undefined)
    throw new ConfigError(
      `There is no API key: no Sluice runs in ${DATA_DIR}, and neither SLUICE_API_KEY nor --key is set. See --help.`,
    )
  if (!/^[\x21-\x7e]+$/.test(key)) throw new ConfigError(`The value of ${key_from} is not an API key.`)
  const secret = values.secret ?? derivedSecret(key)
  if (!isWebhookSecret(secret))
    throw new ConfigError('--secret must be whsec_ and 24 to 64 bytes in base64. See --help.')
  return {
    url: urlOf('--url', values.url ?? started?.api_url ?? DEFAULT_URL).replace(/\/+$/, ''),
    key,
    key_from,
    forward_to: urlOf('--forward-to', values['forward-to']),
    types: typesOf(values.types ?? '*'),
    after: values.after === undefined ? undefined : sequenceOf(values.after),
    secret,
  }
}

/**
 * Derives a signing secret from an API key. The same key always gives the same secret, and the secret does not reveal
 * the key.
 */
function derivedSecret(key: string): string {
  return webhookSecretOf(createHmac('sha256', key).update('sluice listen').digest())
}

function urlOf(option: string, text: string): string {
  const url = URL.parse(text)
  if (url === null || !['http:', 'https:'].includes(url.protocol))
    throw new ConfigError(
      `${option} must be an http or https URL, e.g. http://localhost:4000/hook, not "${text}"`,
    )
  if (url.username !== '' || url.password !== '')
    throw new ConfigError(`${option} must not contain a user or a password`)
  return url.href
}

function typesOf(text: string): string[] {
  const types = list(text)
  const unknown = types.find((type) => matchEventTypes(type).length === 0)
  if (unknown === undefined && types.length > 0) return types
  const problem = unknown === undefined ? 'name at least one.' : unknownTypeMessage(unknown)
  throw new ConfigError(`--types: ${problem} There are ${EVENT_TYPE_PATTERNS.join(', ')}`)
}

function sequenceOf(text: string): number {
  const sequence = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(sequence))
    throw new ConfigError('--after must be the sequence of an event, or 0')
  return sequence
}

if (import.meta.main) {
  const abort = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => abort.abort())
  await runAsProgram((args, env) => listenCommand(args, env, abort.signal))
}
