// Sends messages: one call to the provider, and never a second one while the first may have been answered.
import { sendEmail, sendSms } from '#jobs/messages.ts'
import { park } from '../decision.ts'
import { calling } from './handler.ts'

export const messageHandlers = {
  [sendEmail.name]: calling(sendEmail, async () => park('not built')),
  [sendSms.name]: calling(sendSms, async () => park('not built')),
}
