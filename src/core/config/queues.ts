// The queues. Each job definition names one of them.

export const QUEUES = [
  'payments',
  'payouts',
  'compliance',
  'messages',
  'notifications',
  'deliveries',
  'ai',
] as const
export type QueueName = (typeof QUEUES)[number]
