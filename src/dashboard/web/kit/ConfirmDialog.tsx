// The dialog before an act: what will happen, the act by its name, and then what became of it.
import { Button, Modal } from '@mantine/core'
import { useId, useState, type ReactNode } from 'react'
import { SluiceError } from '#sdk/index.ts'
import { wordsOf } from '../api.ts'
import { isUnknown, outcomeWords } from '../outcomes.ts'
import { useConfirmedAct } from './confirmed-act.ts'
import { Id } from './Id.tsx'
import { toneClass } from './Status.tsx'

type ConfirmDialogProps<T> = {
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
}: ConfirmDialogProps<T> & { onBusy: (busy: boolean) => void }) {
  const missing_id = useId()
  const [touched, setTouched] = useState(false)
  const { asked, lookup, lookUp } = useConfirmedAct<T>({
    title,
    act,
    about,
    shown_once,
    onBusy,
    onDone: async (result) => {
      await onDone?.(result)
      await onSettled?.()
      if (outcome === undefined) onClose()
    },
    onSettled: () => onSettled?.(),
  })
  const arrived = lookup.data !== undefined && lookup.data.state !== 'missing'
  const in_doubt = lookup.status === 'pending' || lookup.status === 'error'
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
        if (lookup.status === 'error') lookUp()
        else if (ready && !done && !in_doubt && status !== 'pending') asked.mutate()
      }}
    >
      <div className="dialog-does">{does}</div>
      {!done && fields !== undefined && <div className="stack dialog-fields">{fields}</div>}
      <Progress {...{ asked, lookup, outcome, arrived }} brief={at_fields.size > 0} unknown={unknown} />
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
          <ActButton
            tone={tone}
            described_by={lacks === undefined ? undefined : missing_id}
            {...(lookup.status === 'error'
              ? { action: 'Check again', disabled: false }
              : { action, disabled: !ready || status === 'pending' || in_doubt })}
          />
        )}
      </div>
    </form>
  )
}

/** How far the act is, and what became of it. `brief`: what is wrong stands at a field. */
function Progress<T>({
  asked,
  lookup,
  outcome,
  arrived,
  brief,
  unknown,
}: {
  asked: ReturnType<typeof useConfirmedAct<T>>['asked']
  lookup: ReturnType<typeof useConfirmedAct<T>>['lookup']
  outcome: ((result: T) => ReactNode) | undefined
  arrived: boolean
  brief: boolean
  unknown: string | undefined
}) {
  return (
    <div aria-live="polite">
      {asked.status === 'pending' && (
        <div className={toneClass('going', 'dialog-result')}>Sent. Waiting for the outcome.</div>
      )}
      {asked.status === 'success' && outcome !== undefined && (
        <div className={toneClass('idle', 'dialog-result')}>{outcome(asked.data)}</div>
      )}
      {asked.status === 'error' && !arrived && (
        <DialogError error={asked.error} brief={brief} words={isUnknown(asked.error) ? unknown : undefined} />
      )}
      <Lookup of={lookup} arrived={arrived} />
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
function Lookup({
  of: { status, data },
  arrived,
}: {
  of: Pick<ReturnType<typeof useConfirmedAct>['lookup'], 'status' | 'data'>
  arrived: boolean
}) {
  if (status === 'idle') return null
  return (
    <div className={toneClass(arrived ? 'idle' : 'going', 'dialog-result')}>
      {status === 'pending'
        ? 'The outcome is not known yet. Checking.'
        : data === undefined
          ? 'The outcome is still not known.'
          : outcomeWords(data, data.words)}
    </div>
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
