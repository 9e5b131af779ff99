// The dialog that confirms an act: its effect, its button, then its outcome.
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
  /** Called after the act succeeded, e.g. to refetch lists. */
  onDone?: (result: T) => unknown
  /** Called after the act succeeded, and when its outcome is unknown. */
  onSettled?: () => unknown
  /**
   * Identifies an act on money, e.g. `capture 0198…`. While the outcome of the act is unknown, the next dialog with the
   * same `operation` reuses the key of the act and looks up the outcome. `operation` may change with the fields of the
   * dialog.
   */
  operation?: string | undefined
  /** The text for an unknown outcome of an act without a key. */
  unknown?: string
  /** The outcome is shown once, e.g. a secret: only the button closes the dialog, not Escape or a click outside. */
  shown_once?: boolean
  tone?: 'bad'
  ready?: boolean
  missing?: string | undefined
  children?: ReactNode | ((errorOf: (param: string) => string | undefined) => ReactNode)
}

/**
 * Confirms an act. `title` is the question (`Capture $12.00?`). `action` is the label of the submit button (`Capture`);
 * the other button is `Back`. `effect` says what happens, to what and for how much. `act` gets the idempotency key,
 * which stays the same while the dialog is open. With `operation`, the key stays the same until the outcome is known.
 * `outcome` renders the result of the act. Without `outcome`, the dialog closes after the act. `ready` false: fields
 * (`children`) are incomplete. `missing` names these fields after the first input. `children` may be a function of
 * `errorOf`, which returns the error of a parameter. Call `errorOf` within that function: an error that a field shows
 * is not repeated below.
 */
export function ConfirmDialog<T>(props: ConfirmDialogProps<T>) {
  // A requested act cannot be canceled, so the dialog stays open until the response arrives.
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

/** Mounted each time the dialog opens, so that its key and state start anew. */
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
    const message = fieldError(mutation.error, param)
    if (message !== undefined) field_errors.add(param)
    return message
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
      <div className="dialog-effect">{effect}</div>
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

/** The progress of the act and its outcome. `brief`: a field already shows the error. */
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
        <div className={toneClass('pending', 'dialog-result')}>Sent. Waiting for the outcome.</div>
      )}
      {mutation.status === 'success' && outcome !== undefined && (
        <div className={toneClass('idle', 'dialog-result')}>{outcome(mutation.data)}</div>
      )}
      {mutation.status === 'error' && !was_received && (
        <DialogError
          error={mutation.error}
          brief={brief}
          message={isOutcomeUnknown(mutation.error) ? unknown : undefined}
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

/** The outcome of an act whose response was lost. */
function LookupOutcome({
  of: { status, data },
  was_received,
}: {
  of: Pick<ReturnType<typeof useConfirmedAct>['lookup'], 'status' | 'data'>
  was_received: boolean
}) {
  if (status === 'idle') return null
  return (
    <div className={toneClass(was_received ? 'idle' : 'pending', 'dialog-result')}>
      {status === 'pending'
        ? 'The outcome is not known yet. Looking it up.'
        : data === undefined
          ? 'The outcome is still not known.'
          : outcomeText(data, data.titles)}
    </div>
  )
}

/** The API's error message for a parameter. */
function fieldError(error: Error | null, param: string): string | undefined {
  if (!(error instanceof SluiceError)) return undefined
  const detail = error.details.find((each) => each.param === param)
  return detail?.message ?? (error.param === param ? errorMessage(error) : undefined)
}

/** An error in a dialog or a form: the API's message and the request id. `brief`: a field already shows the message. */
export function DialogError({
  error,
  brief = false,
  message = errorMessage(error),
}: {
  error: Error
  brief?: boolean
  message?: string | undefined
}) {
  const request_id = error instanceof SluiceError ? error.request_id : null
  return (
    <div className={toneClass('bad', 'dialog-result')} role="alert">
      {brief ? 'Refused: see the field above.' : message}
      {request_id !== null && (
        <div>
          Request <Id id={request_id} label="request id" />
        </div>
      )}
    </div>
  )
}
