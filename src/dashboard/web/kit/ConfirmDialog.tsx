// The dialog before an act: what will happen, the act by its name, and then what became of it.
import { Button, Modal } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState, type ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { newIdempotencyKey, wordsOf } from '../api.ts'
import { Id } from './Id.tsx'
import { toneClass } from './Status.tsx'

/**
 * Asks before an act. `title` is the question (`Capture $12.00?`), `action` the name of the act, which its button
 * repeats (`Capture`); the way out is `Back`. `does` says what will happen, to what and for how much. `act` gets the
 * idempotency key, which is the same for as long as the dialog is open. `outcome` says what became of it; left out, the
 * dialog closes. `ready` false: the fields (`children`) are not complete. `children` as a function gets `errorOf`, which
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
  tone?: 'bad'
  ready?: boolean
  children?: ReactNode | ((errorOf: (param: string) => string | undefined) => ReactNode)
}) {
  const [busy, setBusy] = useState(false)
  // What was asked cannot be taken back by closing, so it is not closed meanwhile.
  const close = () => {
    if (!busy) props.onClose()
  }
  return (
    <Modal opened={props.opened} onClose={close} title={props.title} size="md">
      <ConfirmBody {...props} onBusy={setBusy} />
    </Modal>
  )
}

/** Is mounted when the dialog opens: so its key and its state begin anew each time. */
function ConfirmBody<T>({
  onClose,
  action,
  does,
  act,
  outcome,
  onDone,
  tone,
  ready = true,
  children,
  onBusy,
}: Parameters<typeof ConfirmDialog<T>>[0] & { onBusy: (busy: boolean) => void }) {
  const [idempotency_key] = useState(newIdempotencyKey)
  const asked = useMutation({
    mutationFn: () => act(idempotency_key),
    onMutate: () => onBusy(true),
    onSettled: () => onBusy(false),
    onSuccess: async (result) => {
      await onDone?.(result)
      if (outcome === undefined) onClose()
    },
  })
  const { status } = asked
  const done = status === 'success'
  const at_fields = new Set<string>()
  const errorOf = (param: string) => {
    const words = wordsAt(asked.error, param)
    if (words !== undefined) at_fields.add(param)
    return words
  }
  const fields = typeof children === 'function' ? children(errorOf) : children
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault()
        if (ready && (status === 'idle' || status === 'error')) asked.mutate()
      }}
    >
      <div className="dialog-does">{does}</div>
      {!done && fields !== undefined && <div className="stack dialog-fields">{fields}</div>}
      <div aria-live="polite">
        {status === 'pending' && (
          <div className={toneClass('going', 'dialog-result')}>Asked. The outcome is on its way.</div>
        )}
        {done && outcome !== undefined && (
          <div className={toneClass('idle', 'dialog-result')}>{outcome(asked.data)}</div>
        )}
        {status === 'error' && <DialogError error={asked.error} brief={at_fields.size > 0} />}
      </div>
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
            disabled={!ready || status === 'pending'}
          >
            {action}
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
export function DialogError({ error, brief = false }: { error: Error; brief?: boolean }) {
  const request_id = error instanceof SluiceError ? error.request_id : null
  return (
    <div className={toneClass('bad', 'dialog-result')} role="alert">
      {brief ? 'Refused: see the field above.' : wordsOf(error)}
      {request_id !== null && (
        <div>
          Request <Id id={request_id} label="request id" />
        </div>
      )}
    </div>
  )
}
