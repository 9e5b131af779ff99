// The jobs that apply a provider's notification.
import { z } from 'zod'
import { defineJob } from './job.ts'

export const applyNotification = defineJob({
  name: 'notification.apply',
  queue: 'notifications',
  payload: z.object({ notification_id: z.uuid() }),
  call: null,
})

/**
 * The same for a notification of test mode. Workers of the release before test mode do not know the name, so they claim
 * no such job: they would look it up with the live credentials.
 */
export const applyTestNotification = defineJob({ ...applyNotification, name: 'notification.apply_test' })

export const notificationJobs = { applyNotification, applyTestNotification }
