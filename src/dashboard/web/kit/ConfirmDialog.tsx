// The dialog before an act: what will happen, the act by its name, and then what became of it.
import { Button, Modal } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useEffect, useId, useMemo, useState, type ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { sluice, wordsOf } from '../api.ts'
import {
  askKeeping,
  findOutcome,
  forgetKey,
  isUnknown,
  newIdempotencyKey,
  openKeyOf,
  openWordsOf,
  outcomeWords,
} from '../outcomes.ts'
import { useSession } from '../session.tsx'
import { Id } from './Id.tsx'
import { toneClass } from './Status.tsx'

/**
 * Asks before an act. `title` is the question (`Capture $12.00?`), `action` the name of the act, which its button
 * repeats (`Capture`); the way out is `Back`. `does` says what will happen, to what and for how much. `act` gets the
 * idempotency key, which is the same for as long as the dialog is open, and longer where `about` is given. `outcome` says what became of it; left out, the
 * dialog closes. `ready` false: the fields (`children`) are not complete; `missing` says what of them, once something was filled in. `children` as a function gets `errorOf`, which
 * says what the API found wrong with a parameter; what stands at a field is not said again below.
 */
export function ConfirmDialog<T>(props: {
  opened: boolean
  onClose: () => void
  title: string
  action: string
  does: ReactNode
  act: (idempotency_key: string) => Promise<T>
  outcome?: (result: T) => ReactNode
  /** After it was done, e.g. to have lists read again. */
  onDone?: (result: T) => unknown
  /** After it was done, and when nobody knows whether it was. */
  onSettled?: () => unknown
  /**
   * What an act on money is about, e.g. `capture 0198…`: while its outcome is unknown the same act keeps its key, and asks
   * what became of it. It may change with what is chosen in the dialog.
   */
  about?: string | undefined
  /** What is said, for an act without a key, when nobody knows whether it was done. */
  unknown?: string
  /** What came of it is shown this once: only the button closes that, not Escape or a click beside it. */
  shown_once?: boolean
  tone?: 'bad'
  ready?: boolean
  missing?: string | undefined
  children?: ReactNode | ((errorOf: (param: string) => string | undefined) => ReactNode)
}) {
  // What was asked cannot be taken back by closing, so it is not closed meanwhile.
  const [busy, setBusy] = useState(false)
  const close = () => {
    setBusy(false)
    props.onClose()
  }
  return (
    <Modal opened={props.opened} onClose={() => !busy && close()} title={props.title} size="md">
      <ConfirmBody {...props} onClose={close} onBusy={setBusy} />
    </Modal>
  )
}

/** Is mounted when the dialog opens: so its key and its state begin anew each time. */
function ConfirmBody<T>({
  onClose,
  title,
  action,
  does,
  act,
  outcome,
  onDone,
  onSettled,
  about,
  unknown,
  shown_once = false,
  tone,
  ready = true,
  missing,
  children,
  onBusy,
}: Parameters<typeof ConfirmDialog<T>>[0] & { onBusy: (busy: boolean) => void }) {
  const missing_id = useId()
  const [touched, setTouched] = useState(false)
  const { user, tenant } = useSession()
  const subject = about === undefined ? undefined : `${user.id} ${tenant?.id ?? ''} ${about}`
  const keyed = useMemo(() => {
    const kept = subject === undefined ? undefined : openKeyOf(subject)
    return { subject, key: kept ?? newIdempotencyKey(), is_kept: kept !== undefined }
  }, [subject])
  const { key } = keyed
  // When it is found, the dialog may be about something else.
  const look = useMutation({
    mutationFn: async (of: typeof keyed) => {
      const words = of.subject === undefined ? [] : openWordsOf(of.subject)
      return { ...(await findOutcome((each) => sluice.idempotencyKeys.list(each), of.key)), words }
    },
    onSuccess: async ({ state }, of) => {
      if (state === 'missing') return
      if (of.subject !== undefined) forgetKey(of.subject, of.key)
      await onSettled?.()
    },
  })
  const asked = useMutation({
    mutationFn: () =>
      subject === undefined ? act(key) : askKeeping({ subject, key, words: title.replace(/\?$/, '') }, act),
    onMutate: () => {
      look.reset()
      onBusy(true)
    },
    onSettled: (_result, error) => onBusy(shown_once && error === null),
    onSuccess: async (result) => {
      await onDone?.(result)
      await onSettled?.()
      if (outcome === undefined) onClose()
    },
    onError: async (error) => {
      const is_open = subject !== undefined && openKeyOf(subject) === key
      if (is_open) look.mutate(keyed)
      if (is_open || isUnknown(error)) await onSettled?.()
    },
  })
  // One that was opened again says first what became of it before.
  const { mutate: lookUp, reset: resetLook } = look
  const { reset: resetAsked } = asked
  useEffect(() => {
    resetAsked()
    if (keyed.is_kept) lookUp(keyed)
    else resetLook()
  }, [keyed, lookUp, resetLook, resetAsked])
  const found = look.data
  const arrived = found !== undefined && found.state !== 'missing'
  const in_doubt = look.status === 'pending' || look.status === 'error'
  const { status } = asked
  const done = status === 'success' || arrived
  const lacks = touched && !done && !ready ? missing : undefined
  const at_fields = new Set<string>()
  const errorOf = (param: string) => {
    const words = wordsAt(asked.error, param)
    if (words !== undefined) at_fields.add(param)
    return words
  }
  const fields = typeof children === 'function' ? children(errorOf) : children
  return (
    <form
      onChange={() => setTouched(true)}
      onSubmit={(event) => {
        event.preventDefault()
        if (look.status === 'error') lookUp(keyed)
        else if (ready && !done && !in_doubt && status !== 'pending') asked.mutate()
      }}
    >
      <div className="dialog-does">{does}</div>
      {!done && fields !== undefined && <div className="stack dialog-fields">{fields}</div>}
      <div aria-live="polite">
        {status === 'pending' && (
          <div className={toneClass('going', 'dialog-result')}>Sent. Waiting for the outcome.</div>
        )}
        {status === 'success' && outcome !== undefined && (
          <div className={toneClass('idle', 'dialog-result')}>{outcome(asked.data)}</div>
        )}
        {status === 'error' && !arrived && (
          <DialogError
            error={asked.error}
            brief={at_fields.size > 0}
            words={isUnknown(asked.error) ? unknown : undefined}
          />
        )}
        {look.status !== 'idle' && (
          <div className={toneClass(arrived ? 'idle' : 'going', 'dialog-result')}>
            {look.status === 'pending'
              ? 'The outcome is not known yet. Checking.'
              : found === undefined
                ? 'The outcome is still not known.'
                : outcomeWords(found, found.words)}
          </div>
        )}
      </div>
      {lacks !== undefined && (
        <p className="dim" id={missing_id}>
          {lacks}
        </p>
      )}
      <div className="dialog-foot">
        <Button
          onClick={onClose}
          disabled={status === 'pending'}
          data-autofocus={tone === 'bad' || undefined}
        >
          {done ? 'Close' : 'Back'}
        </Button>
        {!done && (
          <Button
            type="submit"
            variant="filled"
            color={tone === 'bad' ? 'red' : 'accent'}
            aria-describedby={lacks === undefined ? undefined : missing_id}
            disabled={look.status === 'error' ? false : !ready || status === 'pending' || in_doubt}
          >
            {look.status === 'error' ? 'Check again' : action}
          </Button>
        )}
      </div>
    </form>
  )
}

/** What the API says is wrong with a parameter. */
function wordsAt(error: Error | null, param: string): string | undefined {
  if (!(error instanceof SluiceError)) return undefined
  const detail = error.details.find((each) => each.param === param)
  return detail?.message ?? (error.param === param ? wordsOf(error) : undefined)
}

/** An error within a dialog or a form: the API's message, and the request id. `brief`: the message stands at a field. */
export function DialogError({
  error,
  brief = false,
  words = wordsOf(error),
}: {
  error: Error
  brief?: boolean
  words?: string | undefined
}) {
  const request_id = error instanceof SluiceError ? error.request_id : null
  return (
    <div className={toneClass('bad', 'dialog-result')} role="alert">
      {brief ? 'Refused: see the field above.' : words}
      {request_id !== null && (
        <div>
          Request <Id id={request_id} label="request id" />
        </div>
      )}
    </div>
  )
}
