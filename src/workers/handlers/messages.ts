// Sends messages: one call to the provider, and never a second one while the first may have been answered.
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { calling } from './handler.ts'
import { sendingEmail } from './messages/email.ts'
import { sendOnce } from './messages/sending.ts'
import { sendingSms } from './messages/sms.ts'

export const messageHandlers = {
  [sendEmail.name]: calling(sendEmail, (context, job) => sendOnce(context, job, sendingEmail)),
  [sendSms.name]: calling(sendSms, (context, job) => sendOnce(context, job, sendingSms)),
}
