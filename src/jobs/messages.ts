// The jobs of messages. The content is sealed in the row of the message, which never changes.
import { z } from 'zod'
import { EMAIL, SMS } from '#core/config/providers.ts'
import { defineJob } from './job.ts'

const payload = z.object({ message_id: z.uuid() })
const call = {
  status: ['scheduled', 'queued', 'sending', 'unknown'],
  // No message provider recognizes a repeated request.
  on_ambiguous: 'lookup',
  // A message that was canceled or suppressed before its sending needs no call.
  dispensable: true,
  deadline_ms: 60_000,
  request: z.strictObject({
    /**
     * Whether the job retries a message that certainly was not sent; false if the API client waits for the result and
     * retries its request itself.
     */
    retries: z.boolean(),
    /** Whether the message has attachments, which are stored in their own table. */
    has_files: z.boolean(),
  }),
} as const

export const sendEmail = defineJob({
  name: 'message.send_email',
  queue: 'messages',
  payload,
  call: {
    ...call,
    provider: EMAIL.provider,
    operation: 'send_email',
    held_with: null,
    makes: { id: EMAIL.reference, example: EMAIL.examples.email },
  },
  // An email server cannot be queried: the lookup of an email only waits for a bounce or a delivery report.
  retry: { base_ms: 5_000, cap_ms: 10 * 60_000, lookup_delays_ms: [30_000, 5 * 60_000, 3_600_000] },
})

export const sendSms = defineJob({
  name: 'message.send_sms',
  queue: 'messages',
  payload,
  call: {
    ...call,
    provider: SMS.provider,
    operation: 'send_sms',
    held_with: null,
    makes: { id: SMS.reference, example: SMS.examples.sms },
  },
  retry: { base_ms: 5_000, cap_ms: 10 * 60_000, lookup_delays_ms: [5_000, 30_000, 5 * 60_000, 3_600_000] },
})

export const messageJobs = { sendEmail, sendSms }
