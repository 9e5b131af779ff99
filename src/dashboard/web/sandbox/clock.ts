// The clock of test mode, which can be moved forward.
import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { sluice } from '../api.ts'
import { answerKey, invalidate } from '../queries.ts'
import { sendAct, type ActResponse } from '../kit/ActResult.tsx'

const PATH = '/v1/test_clock'

/**
 * `advance_to`: the time that the clock moves to, while its status is `advancing`. `remaining`: the deadlines until
 * then; null until they are counted.
 */
export type TestClock = {
  now: string
  advance_to: string | null
  status: 'ready' | 'advancing'
  remaining: number | null
}

export function useTestClock(): UseQueryResult<TestClock> {
  return useQuery({
    queryKey: answerKey(PATH),
    queryFn: async ({ signal }) => {
      const { data } = await sluice.request<TestClock>('GET', PATH, {}, { signal }).withResponse()
      return data
    },
    refetchInterval: ({ state }) => (state.data?.status === 'advancing' ? 1_000 : 10_000),
  })
}

/** Moves the clock forward. Everything that becomes due runs in its order. */
export async function advanceClock(advance_to: string): Promise<ActResponse<TestClock>> {
  return await sendAct<TestClock>('POST', PATH, { advance_to })
}

export const refreshClock = (): Promise<void> => invalidate(PATH)
