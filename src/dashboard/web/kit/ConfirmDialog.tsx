// The dialog before an act: what will happen, the act by its name, and then what became of it.
import { Button, Modal } from '@mantine/core'
import { useId, useState, type ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { errorMessage } from '../api.ts'
import { isOutcomeUnknown, outcomeText } from '../outcomes.ts'
import { useConfirmedAct } from './confirmed-act.ts'
import { Id } from './Id.tsx'
import { toneClass } from './Status.tsx'

type ConfirmDialogProps<T> = {
  opened: boolean
  onClose: () => void
  title: string
  action: string
  effect: ReactNode
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
  operation?: string | undefined
  /** What is said, for an act without a key, when nobody knows whether it was done. */
  unknown?: string
  /** What came of it is shown this once: only the button closes that, not Escape or a click beside it. */
  shown_once?: boolean
  tone?: 'bad'
  ready?: boolean
  missing?: string | undefined
  children?: ReactNode | ((errorOf: (param: string) => string | undefined) => ReactNode)
}

/**
 * Asks before an act. `title` is the question (`Capture $12.00?`). `action` is the label of its button (`Capture`);
 * the other button is `Back`. `does` says what will happen, to what and for how much. `act` gets the idempotency key,
 * which is the same while the dialog is open, and longer with `about`. `outcome` shows what became of the act; without
 * it, the dialog closes. `ready` false: the fields (`children`) are incomplete; after the first input, `missing` says
 * which. A function as `children` gets `errorOf`, which returns what is wrong with a parameter. It must be called
 * within that function: an error that a field shows is not repeated below.
 */
export function ConfirmDialog<T>(props: ConfirmDialogProps<T>) {
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
  effect,
  act,
  outcome,
  onDone,
  onSettled,
  operation,
  unknown,
  shown_once = false,
  tone,
  ready = true,
  missing,
  children,
  onBusy,
}: ConfirmDialogProps<T> & { onBusy: (busy: boolean) => void }) {
  const missing_id = useId()
  const [touched, setTouched] = useState(false)
  const { mutation, lookup, lookUp } = useConfirmedAct<T>({
    title,
    act,
    operation,
    shown_once,
    onBusy,
    onDone: async (result) => {
      await onDone?.(result)
      await onSettled?.()
      if (outcome === undefined) onClose()
    },
    onSettled: () => onSettled?.(),
  })
  const was_received = lookup.data !== undefined && lookup.data.state !== 'missing'
  const is_looking_up = lookup.status === 'pending' || lookup.status === 'error'
  const { status } = mutation
  const done = status === 'success' || was_received
  const missing_text = touched && !done && !ready ? missing : undefined
  const field_errors = new Set<string>()
  const errorOf = (param: string) => {
    const words = fieldError(mutation.error, param)
    if (words !== undefined) field_errors.add(param)
    return words
  }
  const fields = typeof children === 'function' ? children(errorOf) : children
  return (
    <form
      onChange={() => setTouched(true)}
      onSubmit={(event) => {
        event.preventDefault()
        if (lookup.status === 'error') lookUp()
        else if (ready && !done && !is_looking_up && status !== 'pending') mutation.mutate()
      }}
    >
      <div className="dialog-does">{effect}</div>
      {!done && fields !== undefined && <div className="stack dialog-fields">{fields}</div>}
      <ActProgress
        {...{ mutation, lookup, outcome, was_received }}
        brief={field_errors.size > 0}
        unknown={unknown}
      />
      {missing_text !== undefined && (
        <p className="dim" id={missing_id}>
          {missing_text}
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
          <ActButton
            tone={tone}
            described_by={missing_text === undefined ? undefined : missing_id}
            {...(lookup.status === 'error'
              ? { action: 'Check again', disabled: false }
              : { action, disabled: !ready || status === 'pending' || is_looking_up })}
          />
        )}
      </div>
    </form>
  )
}

/** How far the act is, and what became of it. `brief`: what is wrong stands at a field. */
function ActProgress<T>({
  mutation,
  lookup,
  outcome,
  was_received,
  brief,
  unknown,
}: {
  mutation: ReturnType<typeof useConfirmedAct<T>>['mutation']
  lookup: ReturnType<typeof useConfirmedAct<T>>['lookup']
  outcome: ((result: T) => ReactNode) | undefined
  was_received: boolean
  brief: boolean
  unknown: string | undefined
}) {
  return (
    <div aria-live="polite">
      {mutation.status === 'pending' && (
        <div className={toneClass('going', 'dialog-result')}>Sent. Waiting for the outcome.</div>
      )}
      {mutation.status === 'success' && outcome !== undefined && (
        <div className={toneClass('idle', 'dialog-result')}>{outcome(mutation.data)}</div>
      )}
      {mutation.status === 'error' && !was_received && (
        <DialogError
          error={mutation.error}
          brief={brief}
          words={isOutcomeUnknown(mutation.error) ? unknown : undefined}
        />
      )}
      <LookupOutcome of={lookup} was_received={was_received} />
    </div>
  )
}

function ActButton({
  action,
  tone,
  disabled,
  described_by,
}: {
  action: string
  tone: 'bad' | undefined
  disabled: boolean
  described_by: string | undefined
}) {
  return (
    <Button
      type="submit"
      variant="filled"
      color={tone === 'bad' ? 'red' : 'accent'}
      aria-describedby={described_by}
      disabled={disabled}
    >
      {action}
    </Button>
  )
}

/** What became of an act whose answer did not come. */
function LookupOutcome({
  of: { status, data },
  was_received,
}: {
  of: Pick<ReturnType<typeof useConfirmedAct>['lookup'], 'status' | 'data'>
  was_received: boolean
}) {
  if (status === 'idle') return null
  return (
    <div className={toneClass(was_received ? 'idle' : 'going', 'dialog-result')}>
      {status === 'pending'
        ? 'The outcome is not known yet. Checking.'
        : data === undefined
          ? 'The outcome is still not known.'
          : outcomeText(data, data.words)}
    </div>
  )
}

/** What the API says is wrong with a parameter. */
function fieldError(error: Error | null, param: string): string | undefined {
  if (!(error instanceof SluiceError)) return undefined
  const detail = error.details.find((each) => each.param === param)
  return detail?.message ?? (error.param === param ? errorMessage(error) : undefined)
}

/** An error within a dialog or a form: the API's message, and the request id. `brief`: the message stands at a field. */
export function DialogError({
  error,
  brief = false,
  words = errorMessage(error),
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
