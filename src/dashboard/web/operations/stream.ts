// Live updates for operators, stored in the query cache.
import { useLocation } from '@tanstack/react-router'
import { useEffect, useSyncExternalStore } from 'react'
import { useServerEvents, type ConnectionState } from '../kit/live.ts'
import { answerKey, queryClient } from '../queries.ts'
import type { JobActRow } from './shapes.ts'

const EVENT_NAMES = ['pauses', 'acts', 'queues']

/** Subscribes on operators' pages. The shell calls it once. */
export function useOperationsStream(): void {
  const at_operations = useLocation({ select: ({ pathname }) => pathname.startsWith('/ops/') })
  const state = useServerEvents('/api/ops/stream', cacheEvent, { names: EVENT_NAMES, enabled: at_operations })
  useEffect(() => setConnection(state), [state])
}

/** Whether live updates arrive. */
export function useStreamState(): ConnectionState {
  return useSyncExternalStore(subscribe, () => connection)
}

function cacheEvent(name: string, data: unknown): void {
  if (!EVENT_NAMES.includes(name)) return
  queryClient.setQueryData(answerKey(`/ops/${name}`), data)
  if (name === 'acts')
    for (const act of data as JobActRow[]) queryClient.setQueryData(answerKey(`/ops/acts/${act.id}`), act)
}

let connection: ConnectionState = 'connecting'
const listeners = new Set<() => void>()

function setConnection(state: ConnectionState): void {
  connection = state
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
