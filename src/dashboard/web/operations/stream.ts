// What the server tells operators by itself, put where the pages read it.
import { useLocation } from '@tanstack/react-router'
import { useEffect, useSyncExternalStore } from 'react'
import { useLive, type LiveState } from '../kit/live.ts'
import { answerKey, queryClient } from '../queries.ts'
import type { JobActRow } from './shapes.ts'

const NAMES = ['pauses', 'acts', 'queues']

/** Listens on the pages of operators; the shell has it once. */
export function useOperationsStream(): void {
  const at_operations = useLocation({ select: ({ pathname }) => pathname.startsWith('/ops/') })
  const state = useLive('/api/ops/stream', keep, { names: NAMES, enabled: at_operations })
  useEffect(() => tell(state), [state])
}

/** Whether the pages of operators are told what changes as it happens. */
export function useStreamState(): LiveState {
  return useSyncExternalStore(subscribe, () => live)
}

function keep(name: string, data: unknown): void {
  if (!NAMES.includes(name)) return
  queryClient.setQueryData(answerKey(`/ops/${name}`), data)
  if (name === 'acts')
    for (const act of data as JobActRow[]) queryClient.setQueryData(answerKey(`/ops/acts/${act.id}`), act)
}

let live: LiveState = 'connecting'
const waiting = new Set<() => void>()

function tell(state: LiveState): void {
  live = state
  for (const each of waiting) each()
}

function subscribe(each: () => void): () => void {
  waiting.add(each)
  return () => waiting.delete(each)
}
