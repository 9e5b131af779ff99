// Sends messages: one call to the provider, and never a second one while the first may have been answered.
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { calling, type Handler } from './handler.ts'
import { sendsEmail } from './messages/email.ts'
import { giveUpMessage, sendOnce } from './messages/sending.ts'
import { sendsSms } from './messages/sms.ts'

const giveUp: NonNullable<Handler['giveUp']> = (_context, job, reason) => giveUpMessage(job, reason)

export const messageHandlers = {
  [sendEmail.name]: calling(sendEmail, (context, job) => sendOnce(context, job, sendsEmail), giveUp),
  [sendSms.name]: calling(sendSms, (context, job) => sendOnce(context, job, sendsSms), giveUp),
}
