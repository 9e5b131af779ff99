// The act of a dialog: it is requested once, with a key, and looked up while its outcome is unknown.
import { useMutation } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { sluice } from '../api.ts'
import {
  askKeeping,
  findOutcome,
  forgetKey,
  isUnknown,
  newIdempotencyKey,
  openKeyOf,
  openWordsOf,
} from '../outcomes.ts'
import { useSession } from '../session.tsx'

/** The properties are those of `ConfirmDialog`. `onBusy` is called with whether the dialog must stay open. */
type ConfirmedAct<T> = {
  title: string
  act: (idempotency_key: string) => Promise<T>
  about?: string | undefined
  shown_once: boolean
  onBusy: (busy: boolean) => void
  onDone: (result: T) => unknown
  onSettled: () => unknown
}

/** `asked` is the request, and `lookup` finds its outcome after an answer was lost. */
export function useConfirmedAct<T>({
  title,
  act,
  about,
  shown_once,
  onBusy,
  onDone,
  onSettled,
}: ConfirmedAct<T>) {
  const { user, tenant } = useSession()
  const subject = about === undefined ? undefined : `${user.id} ${tenant?.id ?? ''} ${about}`
  const keyed = useMemo(() => {
    const kept = subject === undefined ? undefined : openKeyOf(subject)
    return { subject, key: kept ?? newIdempotencyKey(), is_kept: kept !== undefined }
  }, [subject])
  const { key } = keyed
  // The dialog may be about something else by the time the outcome is found.
  const lookup = useMutation({
    mutationFn: async (of: typeof keyed) => {
      const words = of.subject === undefined ? [] : openWordsOf(of.subject)
      return { ...(await findOutcome((each) => sluice.idempotencyKeys.list(each), of.key)), words }
    },
    onSuccess: async ({ state }, of) => {
      if (state === 'missing') return
      if (of.subject !== undefined) forgetKey(of.subject, of.key)
      await onSettled()
    },
  })
  const asked = useMutation({
    mutationFn: () =>
      subject === undefined ? act(key) : askKeeping({ subject, key, words: title.replace(/\?$/, '') }, act),
    onMutate: () => {
      lookup.reset()
      onBusy(true)
    },
    onSettled: (_result, error) => onBusy(shown_once && error === null),
    onSuccess: async (result) => await onDone(result),
    onError: async (error) => {
      const is_open = subject !== undefined && openKeyOf(subject) === key
      if (is_open) lookup.mutate(keyed)
      if (is_open || isUnknown(error)) await onSettled()
    },
  })
  // A dialog that is opened again first shows the outcome of the act before.
  const { mutate: lookUp, reset: resetLook } = lookup
  const { reset: resetAsked } = asked
  useEffect(() => {
    resetAsked()
    if (keyed.is_kept) lookUp(keyed)
    else resetLook()
  }, [keyed, lookUp, resetLook, resetAsked])
  return { asked, lookup, lookUp: () => lookUp(keyed) }
}
