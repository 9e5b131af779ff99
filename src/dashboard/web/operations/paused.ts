// What is paused for the tenant that is shown, for everybody.
import type { Answers } from '../generated/answers.ts'
import { useAnswer } from '../queries.ts'

type PausedQueue = Answers['GET /session/pauses'][number]

/** The queues whose work waits here; one that is null stands for all. */
export function usePausedQueues(): PausedQueue[] {
  return useAnswer<PausedQueue[]>('/session/pauses', undefined, { interval_ms: 5_000 }).data ?? []
}

/** Whether the work of a queue waits here until somebody resumes it. */
export function useIsPaused(of: string): boolean {
  return usePausedQueues().some(({ queue }) => queue === null || queue === of)
}
