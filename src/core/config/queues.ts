// The queues, which the configuration and commands name; each job says in which it waits.

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
