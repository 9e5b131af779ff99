// Errors of the inbox: a status and a message.
import type { EmulatorErrors } from '../shared/controls.ts'

/** An error answer, thrown by controls. */
export class InboxRefusal extends Error {
  status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }

  get body(): string {
    return JSON.stringify({ error: { message: this.message } })
  }
}

export const INBOX_ERRORS: EmulatorErrors = {
  parameter: (message) => new InboxRefusal(400, message),
  unknownUrl: (method, path) => new InboxRefusal(404, `Unknown URL: ${method} ${path}`),
  of: (status, message) => new InboxRefusal(status, message),
  answerOf: (error) => (error instanceof InboxRefusal ? { status: error.status, body: error.body } : null),
}
