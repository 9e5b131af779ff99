// The registry of jobs: one object of jobs for each noun. A job without a handler does not compile.
import { notificationJobs } from './notifications.ts'
import { paymentJobs } from './payments.ts'
import { refundJobs } from './refunds.ts'

const JOBS = { ...paymentJobs, ...refundJobs, ...notificationJobs }

export type JobName = (typeof JOBS)[keyof typeof JOBS]['name']

/** The jobs that this version can perform. During a deployment another version may ask for others. */
export const JOB_NAMES: readonly JobName[] = Object.values(JOBS).map(({ name }) => name)
