// Answers a request with a scripted fault, for APIs whose operations do not handle faults themselves.
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { countHit, holdRequest, type Fault, type Faults } from './faults.ts'
import { send, sendHalf } from './http.ts'

export type EmulatedResponse = { status: number; body: string }

type FaultHandling = {
  response: ServerResponse
  /** Performs the request. */
  perform: () => Promise<EmulatedResponse>
  reply: (answer: EmulatedResponse, retry_after_s: number | null) => void
  /** Error answers by action. If the action of the fault is missing here, the request is performed normally. */
  refusals: { error_500: () => EmulatedResponse } & {
    [Action in NonNullable<Fault['action']>]?: () => EmulatedResponse
  }
}

/** Handles a request to which `fault` applies: delay, hold, effect and answer. */
export async function respondWithFault(
  faults: Faults,
  fault: Fault,
  { response, perform, reply, refusals }: FaultHandling,
): Promise<void> {
  if (fault.action === null) countHit(faults, fault)
  if (fault.delay_ms > 0) await sleep(fault.delay_ms, undefined, { ref: false })
  const done = fault.when === 'after' ? await perform() : null
  if (fault.action === 'hold') {
    const released = holdRequest(fault)
    countHit(faults, fault)
    await released
  } else if (fault.action !== null) countHit(faults, fault)
  // The operation itself may have closed the connection.
  if (response.destroyed) return
  switch (fault.action) {
    case 'drop':
      response.destroy()
      return
    case 'cut_body': {
      const { status, body } = done ?? refusals.error_500()
      return sendHalf(response, status, {}, body)
    }
    case 'html_503':
      return send(
        response,
        503,
        {},
        '<html><body>503 Service Temporarily Unavailable</body></html>',
        'text/html',
      )
    case 'empty_200':
      return send(response, 200, {}, '{}')
    case 'string_ok':
      return send(response, 200, {}, '"ok"')
    case 'error_500_unstored':
      return reply(refusals.error_500(), null)
    default: {
      const refuse = fault.action === null ? undefined : refusals[fault.action]
      return reply(refuse === undefined ? (done ?? (await perform())) : refuse(), fault.retry_after_s)
    }
  }
}
