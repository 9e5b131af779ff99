// Errors of the Twilio emulator: a status and one of Twilio's codes.
import { SmsRefusal } from '#providers/sandbox/sms/refusal.ts'
import type { EmulatorErrors } from '../shared/controls.ts'

export const SMS_ERRORS: EmulatorErrors = {
  parameter: (message, param) => new SmsRefusal(400, 20001, `${param}: ${message}`),
  unknownUrl: (_method, path) => smsNotFound(path),
  of: (status, message) => new SmsRefusal(status, 20001, message),
  answerOf: (error) => (error instanceof SmsRefusal ? { status: error.status, body: error.body } : null),
}

export const smsNotFound = (path: string) =>
  new SmsRefusal(404, 20404, `The requested resource ${path} was not found`)
export const twilioKeyRefused = () => new SmsRefusal(401, 20003, 'Authenticate')
export const twilioBusy = () => new SmsRefusal(429, 20429, 'Too Many Requests')
