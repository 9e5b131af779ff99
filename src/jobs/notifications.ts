// The job that applies a provider's notification.
import { z } from 'zod'
import { defineJob } from './job.ts'

export const applyNotification = defineJob({
  name: 'notification.apply',
  queue: 'notifications',
  payload: z.object({ notification_id: z.uuid() }),
  call: null,
})

export const notificationJobs = { applyNotification }
