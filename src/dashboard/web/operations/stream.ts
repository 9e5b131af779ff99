// What the server tells operators by itself, put where the pages read it.
import { useLocation } from '@tanstack/react-router'
import { useEffect, useSyncExternalStore } from 'react'
import { useServerEvents, type ConnectionState } from '../kit/live.ts'
import { answerKey, queryClient } from '../queries.ts'
import type { JobActRow } from './shapes.ts'

const NAMES = ['pauses', 'acts', 'queues']

/** Listens on the pages of operators; the shell has it once. */
export function useOperationsStream(): void {
  const at_operations = useLocation({ select: ({ pathname }) => pathname.startsWith('/ops/') })
  const state = useServerEvents('/api/ops/stream', cacheEvent, { names: NAMES, enabled: at_operations })
  useEffect(() => setConnection(state), [state])
}

/** Whether the pages of operators are told what changes as it happens. */
export function useStreamState(): ConnectionState {
  return useSyncExternalStore(subscribe, () => connection)
}

function cacheEvent(name: string, data: unknown): void {
  if (!NAMES.includes(name)) return
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
