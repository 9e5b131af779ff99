// Refusals of messages: a status and one of Twilio's codes.

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

export const smsInvalid = (code: number, message: string) => new SmsRefusal(400, code, message)
export const twilioFailed = () => new SmsRefusal(500, 20500, 'An internal server error has occurred')
/** The refusal of a message to a person who has opted out. */
export const smsUnsubscribed = () => smsInvalid(21610, 'Attempt to send to unsubscribed recipient')
