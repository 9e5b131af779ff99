// The pauses that affect the current tenant.
import type { Answers } from '../generated/answers.ts'
import { useAnswer } from '../queries.ts'

type PausedQueue = Answers['GET /session/pauses'][number]

/** The paused queues. A null queue stands for all queues. */
export function usePausedQueues(): PausedQueue[] {
  return useAnswer<PausedQueue[]>('/session/pauses', undefined, { interval_ms: 5_000 }).data ?? []
}

/** Whether a queue is paused for the current tenant. */
export function useIsPaused(of: string): boolean {
  return usePausedQueues().some(({ queue }) => queue === null || queue === of)
}
