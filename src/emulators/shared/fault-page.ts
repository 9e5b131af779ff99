// Common sections and buttons of the pages of emulators: faults and requests.
import { textOf, type Control, type EmulatorErrors } from './controls.ts'
import { FAULT_NAMES, release, removeFaults, type Fault, type Faults } from './faults.ts'
import { button, cell, choice, document, escape, section, sendPage, type Cell } from './html.ts'
import { send } from './http.ts'
import type { LoggedRequest } from './requests.ts'

/** Lists the faults, with a form that adds a fault. `places`: labels of the requests to which it can apply. */
export function faultSection({ list }: Faults, places: readonly string[]): string {
  const set = `<form method="post" action="/_emulator/page/fault">${choice('value', 'Fault', FAULT_NAMES)} ${choice('place', 'at', places)}
    <label>times <input type="number" name="times" value="1" min="1" max="1000"></label> <button>Set</button></form>`
  const form = `<div class="forms">${set}${list.length > 0 ? button('clear_all', 'Clear all', {}) : ''}</div>`
  return section('Faults', ['id', '', 'script', 'hits', 'left', 'held'], list.map(faultRow), form)
}

function faultRow({ id, hits, held, left, script }: Fault): Cell[] {
  const buttons = [
    button('clear', 'Clear', { id }),
    ...(held.length > 0 ? [button('release', 'Release', { id })] : []),
  ]
  const remaining = Number.isFinite(left) ? String(left) : 'no end'
  return [id, cell(buttons.join(' ')), JSON.stringify(script), String(hits), remaining, String(held.length)]
}

export const REFUSAL_COLUMNS = ['at', 'request', 'answer', 'reason', 'fault', 'request id']

/** A table row of REFUSAL_COLUMNS. */
export function refusalRow({ at, method, path, status, refusal, fault, request_id }: LoggedRequest): Cell[] {
  return [at, `${method} ${path}`, answered(status), refusal ?? '', fault ?? '', request_id]
}

/** The status of an answer as a text. */
export function answered(status: number): string {
  return status === 0 ? 'none' : String(status)
}

/** The page that is shown after a button whose action failed. */
export function problemPage(message: string): string {
  return document('The action failed', `<p>${escape(message)}</p><p><a href="/">Back</a></p>`)
}

const FIELDS = ['id', 'value', 'place', 'times', 'amount'] as const
export type ButtonFields = Record<(typeof FIELDS)[number], string>

/** The fields that a button sent. A missing field is an empty text. */
export function buttonFields(body: Record<string, unknown>): ButtonFields {
  return Object.fromEntries(FIELDS.map((field) => [field, textOf(body, field) ?? ''])) as ButtonFields
}

/** The actions of the buttons of `faultSection`. `places`: the `match` for each label. */
export function faultButtons(
  addFault: (faults: Faults, script: unknown) => Fault,
  places: Record<string, object>,
): Record<string, (emulator: { faults: Faults }, fields: ButtonFields) => unknown> {
  return {
    fault: ({ faults }, { value, place, times }) =>
      addFault(faults, {
        match: Object.hasOwn(places, place) ? places[place] : {},
        ...(Number(times) > 1 && { times: Number(times) }),
        fault: value === 'delay_ms' ? { delay_ms: 1000 } : value,
      }),
    clear: ({ faults }, { id }) => removeFaults(faults, id),
    clear_all: ({ faults }) => removeFaults(faults, null),
    release: ({ faults }, { id }) => release(faults, id),
  }
}

/** The control for a pressed button: runs the action with the button's name and redirects to the page. */
export function buttonControl<Emulator>(
  buttons: Record<
    string,
    (emulator: Emulator, fields: ButtonFields, body: Record<string, unknown>) => unknown
  >,
  errors: EmulatorErrors,
): Control<Emulator> {
  return async (emulator, name, body, _query, { response }) => {
    try {
      const press = Object.hasOwn(buttons, name) ? buttons[name] : undefined
      if (press === undefined) throw errors.of(400, `There is no button "${name}".`)
      await press(emulator, buttonFields(body), body)
      send(response, 303, { location: '/' }, '')
    } catch (error) {
      const answer = errors.answerOf(error)
      if (answer === null) throw error
      sendPage(response, answer.status, problemPage(error instanceof Error ? error.message : ''))
    }
  }
}
