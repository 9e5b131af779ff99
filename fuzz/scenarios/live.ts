// Runs scenarios of one resource: its tenant and its provider make moves in any order, some at the same time. Then the
// provider repeats all its events.
import { type Arbitrary, array, boolean, constantFrom, nat, record } from 'fast-check'
import { freshKey } from '#test/client.ts'
import type { RawAnswer } from '#test/raw.ts'
import type { Target } from '../target.ts'
import { signed } from '../notifications/notice.ts'
import { stripeNotifier } from '../notifications/stripe.ts'
import { send, type Sent } from '../wire.ts'
import { recordingClient, type SendRequest, type ScenarioResult } from './recording-client.ts'
import type { ResourceModel, Resource, NotificationMove } from './resource.ts'

type Scenario = {
  parameters: unknown
  /**
   * Lists of moves, one list after the other; the moves of one list run at the same time. `repeat`: the request is
   * sent again with the same key.
   */
  moves: { name: string; repeat: boolean }[][]
  /** The order in which the provider's events are repeated. */
  order: number[]
}

export function scenariosOf({ parameters, moves }: ResourceModel): Arbitrary<Scenario> {
  const move = record({ name: constantFrom(...Object.keys(moves)), repeat: boolean() })
  return record({
    parameters,
    moves: array(array(move, { minLength: 1, maxLength: 3, size: 'small' }), { maxLength: 5 }),
    order: array(nat({ max: 1000 }), { minLength: 12, maxLength: 12 }),
  })
}

/** Runs the scenario. Returns contradictions, and the requests so far as commands. */
export async function runScenario(
  target: Target,
  model: ResourceModel,
  scenario: Scenario,
): Promise<ScenarioResult> {
  const { sendRequest, commands } = recordingClient(target)
  const path = await model.create(sendRequest, scenario.parameters, () => target.stored())
  if (path === null) return { problems: [], commands }
  let resource: Resource = (await sendRequest('GET', path)).body
  for (const [index, moves] of scenario.moves.entries()) {
    const problems = await Promise.all(
      moves.map((move) =>
        performMove(target, sendRequest, model, move, resource, index > 0 && moves.length === 1),
      ),
    )
    await target.stored()
    const before = model.stateOf(resource)
    resource = (await sendRequest('GET', path)).body
    const after = model.stateOf(resource)
    if (!reachable(model, before, after)) problems.push([`changed from ${before} to ${after}`])
    if (problems.flat().length > 0) return { problems: problems.flat(), commands }
  }
  return { problems: await repeatEvents(target, sendRequest, model, path, scenario.order), commands }
}

/** Performs a move and returns its problems. `alone`: no other move runs. */
async function performMove(
  target: Target,
  sendRequest: SendRequest,
  { moves, referenceOf, provider }: ResourceModel,
  { name, repeat }: { name: string; repeat: boolean },
  resource: Resource,
  alone: boolean,
): Promise<string[]> {
  const move = moves[name]!
  if (move.by === 'provider') {
    const reference = referenceOf?.(resource) ?? null
    // The provider refuses a move that the state of its object does not allow. Such a refusal is not a problem.
    if (reference !== null)
      await target[provider ?? 'processor']
        ?.control('POST', move.path(reference), { status: move.status })
        .catch(() => {})
    return []
  }
  if (move.by === 'notifier') return await sendNotification(target, move, resource)
  const { method = 'POST', path, body, allowedStatuses } = move
  const content = method === 'DELETE' ? null : { ...body?.(resource) }
  if (content !== null && method === 'POST') Object.assign(content, { idempotency_key: freshKey() })
  const act = async (): Promise<RawAnswer> => await sendRequest(method, path(resource), content)
  const answer = await act()
  const description = `${name} of ${JSON.stringify(resource)}`
  const allowed = alone ? allowedStatuses(resource) : [200, 201, 202, 402, 409, 422, 502]
  if (!allowed.includes(answer.status))
    return [`${description}: ${answer.status} instead of ${allowed.join(' or ')}: ${answer.text}`]
  if (!repeat || answer.status >= 300 || method !== 'POST') return []
  const repeated = await act()
  return repeated.headers.get('idempotent-replayed') === 'true' && repeated.status < 300
    ? []
    : [`${description}, repeated with its key after ${answer.status}: ${repeated.status} ${repeated.text}`]
}

async function sendNotification(
  { webhooks }: Target,
  { notifier, notice }: NotificationMove,
  resource: Resource,
): Promise<string[]> {
  const secret = webhooks?.secrets[notifier.name]
  if (webhooks === null || secret === undefined) return []
  const notification = notice(resource)
  if (notification === null) return []
  const { target, type, body } = notification
  const sent: Sent = {
    operation: `POST /${notifier.name}`,
    method: 'POST',
    target,
    headers: [['content-type', type]],
    body,
    framing: 'length',
  }
  const answer = await send(webhooks.url, signed(notifier, sent, GENUINE, { url: webhooks.url, secret }))
  return answer.status === 200 ? [] : [`${target} did not accept ${body}: ${answer.status} ${answer.text}`]
}

function reachable(
  { next }: ResourceModel,
  before: string,
  after: string,
  seen = new Set<string>(),
): boolean {
  if (before === after) return true
  seen.add(before)
  return (next[before] ?? []).some(
    (each) => !seen.has(each) && reachable({ next } as ResourceModel, each, after, seen),
  )
}

/** The provider repeats all its events of the resource with new ids and in another order. Nothing may change. */
async function repeatEvents(
  target: Target,
  sendRequest: SendRequest,
  { referenceOf }: ResourceModel,
  path: string,
  order: number[],
): Promise<string[]> {
  const { processor, webhooks } = target
  const secret = webhooks?.secrets.stripe
  if (processor === null || webhooks === null || secret === undefined) return []
  const stored = await target.stored()
  const before = (await sendRequest('GET', path)).body
  const reference = referenceOf?.(before) ?? null
  if (reference === null) return []
  const { data } = await eventsOf(processor)
  const own_events = data.filter(({ data: { object } }) => object.id === reference)
  const shuffled = own_events.map((event, index) => [event, order[index % order.length]!] as const)
  const events = shuffled.toSorted(([, a], [, b]) => a - b).map(([event]) => event)
  const answers = await Promise.all(
    [...events, ...events].map(async (event, index) => {
      const id = `evt_fuzz_${freshKey()}_${index}`
      const sent = asNotification({ ...event, id })
      return await send(webhooks.url, signed(stripeNotifier, sent, GENUINE, { url: webhooks.url, secret }))
    }),
  )
  const refused = answers
    .filter(({ status }) => status !== 200)
    .map(({ text }) => `a repeated event was refused: ${text}`)
  const now = await target.stored()
  const after = (await sendRequest('GET', path)).body
  if (JSON.stringify(after) !== JSON.stringify(before))
    refused.push(`repeated events changed it from ${JSON.stringify(before)} to ${JSON.stringify(after)}`)
  else if (now !== stored) refused.push(`repeated events changed stored data from ${stored} to ${now}`)
  return refused
}

type Event = { id: string; data: { object: { id: string } } }
const GENUINE = { kind: 'genuine', age_s: 0 } as const

async function eventsOf({ url, api_key }: NonNullable<Target['processor']>): Promise<{ data: Event[] }> {
  const headers = { authorization: `Bearer ${api_key}` }
  return (await (await fetch(`${url}/v1/events?limit=100`, { headers })).json()) as { data: Event[] }
}

function asNotification(event: Event) {
  return {
    operation: 'POST /stripe',
    method: 'POST',
    target: '/stripe',
    headers: [['content-type', 'application/json; charset=utf-8'] as const],
    body: Buffer.from(JSON.stringify(event)).toString('latin1'),
    framing: 'length' as const,
  }
}
