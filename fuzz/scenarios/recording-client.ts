// Sends the requests of scenarios as the tenant and records each as a command.
import type { RawAnswer } from '#test/raw.ts'
import type { Target } from '../target.ts'
import { asCommand, send, type Sent } from '../wire.ts'

/** Contradictions, and the requests so far as commands. */
export type ScenarioResult = { problems: string[]; commands: string[] }
export type SendRequest = (method: string, path: string, body?: object | null) => Promise<RawAnswer>

export function recordingClient(target: Target): { sendRequest: SendRequest; commands: string[] } {
  const commands: string[] = []
  const sendRequest: SendRequest = async (method, path, body = null) => {
    const headers = [['authorization', `Bearer ${target.client.key}`] as const]
    const sent: Sent = {
      operation: `${method} ${path}`,
      method,
      target: path,
      headers: body === null ? headers : [...headers, ['content-type', 'application/json'] as const],
      body: body === null ? null : JSON.stringify(body),
      framing: 'length',
    }
    commands.push(asCommand(target.url, sent))
    return await send(target.url, sent)
  }
  return { sendRequest, commands }
}
