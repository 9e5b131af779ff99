// The work that a provider's notification asks for.
import { z } from 'zod'
import { defineJob } from './job.ts'

export const applyNotification = defineJob({
  name: 'notification.apply',
  queue: 'notifications',
  payload: z.object({ notification_id: z.uuid() }),
  call: null,
})

export const notificationJobs = { applyNotification }
