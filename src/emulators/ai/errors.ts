// Errors of the AI emulator: a status and an `error` object in OpenAI's format.
import type { EmulatorErrors } from '../shared/controls.ts'

type Details = { type?: string; param?: string | null; code?: string | null }

/** An error answer, thrown by operations. */
export class AiRefusal extends Error {
  status: number
  details: Details

  constructor(status: number, message: string, details: Details = {}) {
    super(message)
    this.status = status
    this.details = details
  }

  get body(): string {
    const { type = this.status < 500 ? 'invalid_request_error' : 'server_error' } = this.details
    const { param = null, code = null } = this.details
    return JSON.stringify({ error: { message: this.message, type, param, code } })
  }
}

export const AI_ERRORS: EmulatorErrors = {
  parameter: (message, param) => new AiRefusal(400, message, { param }),
  unknownUrl: (method, path) => new AiRefusal(404, `Unknown URL: ${method} ${path}`),
  of: (status, message) => new AiRefusal(status, message),
  answerOf: (error) => (error instanceof AiRefusal ? { status: error.status, body: error.body } : null),
}

export const aiKeyRefused = () =>
  new AiRefusal(401, 'Incorrect API key provided.', { code: 'invalid_api_key' })
export const serverFailed = () => new AiRefusal(500, 'The server had an error.')
export const tooManyRequests = () =>
  new AiRefusal(429, 'Rate limit reached.', { type: 'requests', code: 'rate_limit_exceeded' })
