// The act of a dialog: requested once, with an idempotency key, and looked up while its outcome is unknown.
import { useMutation } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { sluice } from '../api.ts'
import {
  runWithStoredKey,
  findOutcome,
  deleteStoredKey,
  isOutcomeUnknown,
  newIdempotencyKey,
  storedKeyOf,
  storedTitlesOf,
} from '../outcomes.ts'
import { useSession } from '../session.tsx'

/** The properties of `ConfirmDialog`. `onBusy` reports whether the dialog must stay open. */
type ConfirmedAct<T> = {
  title: string
  act: (idempotency_key: string) => Promise<T>
  operation?: string | undefined
  shown_once: boolean
  onBusy: (busy: boolean) => void
  onDone: (result: T) => unknown
  onSettled: () => unknown
}

/** Performs the act of a dialog. `mutation` requests the act. `lookup` finds the outcome if the response was lost. */
export function useConfirmedAct<T>({
  title,
  act,
  operation,
  shown_once,
  onBusy,
  onDone,
  onSettled,
}: ConfirmedAct<T>) {
  const { user, tenant } = useSession()
  const stored_operation = operation === undefined ? undefined : `${user.id} ${tenant?.id ?? ''} ${operation}`
  const keyed_act = useMemo(() => {
    const stored_key = stored_operation === undefined ? undefined : storedKeyOf(stored_operation)
    return { stored_operation, key: stored_key ?? newIdempotencyKey(), is_stored: stored_key !== undefined }
  }, [stored_operation])
  const { key } = keyed_act
  // The act is an argument: when its outcome is found, the dialog may already have another operation.
  const lookup = useMutation({
    mutationFn: async (of: typeof keyed_act) => {
      const titles = of.stored_operation === undefined ? [] : storedTitlesOf(of.stored_operation)
      return { ...(await findOutcome((each) => sluice.idempotencyKeys.list(each), of.key)), titles }
    },
    onSuccess: async ({ state }, of) => {
      if (state === 'missing') return
      if (of.stored_operation !== undefined) deleteStoredKey(of.stored_operation, of.key)
      await onSettled()
    },
  })
  const mutation = useMutation({
    mutationFn: () =>
      stored_operation === undefined
        ? act(key)
        : runWithStoredKey({ operation: stored_operation, key, title: title.replace(/\?$/, '') }, act),
    onMutate: () => {
      lookup.reset()
      onBusy(true)
    },
    onSettled: (_result, error) => onBusy(shown_once && error === null),
    onSuccess: async (result) => await onDone(result),
    onError: async (error) => {
      const is_open = stored_operation !== undefined && storedKeyOf(stored_operation) === key
      if (is_open) lookup.mutate(keyed_act)
      if (is_open || isOutcomeUnknown(error)) await onSettled()
    },
  })
  // A reopened dialog first looks up the outcome of the earlier act.
  const { mutate: lookUp, reset: resetLookup } = lookup
  const { reset: resetMutation } = mutation
  useEffect(() => {
    resetMutation()
    if (keyed_act.is_stored) lookUp(keyed_act)
    else resetLookup()
  }, [keyed_act, lookUp, resetLookup, resetMutation])
  return { mutation, lookup, lookUp: () => lookUp(keyed_act) }
}
