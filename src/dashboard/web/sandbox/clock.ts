// The clock of test mode, which can be moved forward. Deadlines in test mode are times of this clock.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { sluice } from '../api.ts'
import type { Answers } from '../generated/answers.ts'
import { actResponse, type ActResponse } from '../kit/ActResult.tsx'
import { useNow } from '../kit/Instant.tsx'
import { MODE } from '../mode.ts'
import { answerKey, invalidate } from '../queries.ts'
import { useIsInSandbox } from './acts.ts'

export type TestClock = Answers['GET /v1/test_clock']

const PATH = '/v1/test_clock'
/** A clock that is ahead by less is on time: the answer takes a moment. */
const MIN_OFFSET_MS = 2_000

/** The clock of the tenant. In live mode there is none, and nothing is read. */
export function useTestClock(): UseQueryResult<TestClock> {
  return useQuery({
    queryKey: answerKey(PATH),
    queryFn: async ({ signal }) => await sluice.testClock.retrieve({ signal }),
    refetchInterval: ({ state }) => (state.data?.status === 'advancing' ? 1_000 : 10_000),
    enabled: MODE === 'test',
  })
}

/** How far a clock is ahead of the real time, in ms. `read_at`: when it was read. */
export function clockOffset({ now }: TestClock, read_at: number): number {
  const offset_ms = Date.parse(now) - read_at
  return offset_ms < MIN_OFFSET_MS ? 0 : offset_ms
}

/** How far the clock of the page is ahead of the real time, in ms: 0 in live mode. */
function useClockOffset(): number {
  const { data, dataUpdatedAt } = useTestClock()
  return data === undefined ? 0 : clockOffset(data, dataUpdatedAt)
}

/** How far the processor's clock is ahead, in ms. A test account of the processor has the real time. */
export function useProcessorOffset(): number {
  const offset_ms = useClockOffset()
  return useIsInSandbox() ? offset_ms : 0
}

/** The time of the page's clock in ms, which deadlines are compared with. In live mode: the real time. */
export function useClockNow(): number {
  return useNow() + useClockOffset()
}

/** The time of the processor's clock in ms, which deadlines of holds and disputes are compared with. */
export function useProcessorNow(): number {
  return useNow() + useProcessorOffset()
}

/** Moves the clock forward. Everything that becomes due runs in its order. */
export async function advanceClock(advance_to: string): Promise<ActResponse<TestClock>> {
  return await actResponse(sluice.testClock.advance({ advance_to }))
}

export const refreshClock = (): Promise<void> => invalidate(PATH)
