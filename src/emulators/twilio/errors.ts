// Errors of the Twilio emulator: a status and one of Twilio's codes.
import type { EmulatorErrors } from '../shared/controls.ts'

/** An error answer, thrown by operations. */
export class SmsRefusal extends Error {
  status: number
  code: number

  constructor(status: number, code: number, message: string) {
    super(message)
    this.status = status
    this.code = code
  }

  get body(): string {
    const { status, code, message } = this
    return JSON.stringify({
      code,
      message,
      more_info: `https://www.twilio.com/docs/errors/${code}`,
      status,
    })
  }
}

export const SMS_ERRORS: EmulatorErrors = {
  parameter: (message, param) => new SmsRefusal(400, 20001, `${param}: ${message}`),
  unknownUrl: (_method, path) => smsNotFound(path),
  of: (status, message) => new SmsRefusal(status, 20001, message),
  answerOf: (error) => (error instanceof SmsRefusal ? { status: error.status, body: error.body } : null),
}

export const smsInvalid = (code: number, message: string) => new SmsRefusal(400, code, message)
export const smsNotFound = (path: string) =>
  new SmsRefusal(404, 20404, `The requested resource ${path} was not found`)
export const twilioKeyRefused = () => new SmsRefusal(401, 20003, 'Authenticate')
export const twilioBusy = () => new SmsRefusal(429, 20429, 'Too Many Requests')
export const twilioFailed = () => new SmsRefusal(500, 20500, 'An internal server error has occurred')
