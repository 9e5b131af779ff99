// Sends messages: one call to the provider, and no second call while the first may have been accepted.
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { calling } from '../handler.ts'
import { sendsEmail } from './email.ts'
import { giveUpMessage, sendOnce } from './sending.ts'
import { sendsSms } from './sms.ts'

export const messageHandlers = {
  [sendEmail.name]: calling(sendEmail, (context, job) => sendOnce(context, job, sendsEmail), giveUpMessage),
  [sendSms.name]: calling(sendSms, (context, job) => sendOnce(context, job, sendsSms), giveUpMessage),
}
