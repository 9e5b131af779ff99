// Ids: short in tables, full on pages, with a copy button.
import { CopyButton } from './CopyButton.tsx'

/** An id. `short`: only its end, for tables; the button copies the full id. `label` names the kind of id. */
export function Id({ id, short = false, label = 'id' }: { id: string; short?: boolean; label?: string }) {
  return (
    <span className="id">
      <code title={short ? id : undefined}>{short ? shortId(id) : id}</code>
      <CopyButton text={id} label={`Copy ${label}`} />
    </span>
  )
}

/** An id, or a dash for null. */
export function OptionalId({ id, ...others }: { id: string | null; short?: boolean; label: string }) {
  return id === null ? '–' : <Id id={id} {...others} />
}

/** Matches a full id. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** The last eight characters of an id. The first characters of some ids are a timestamp. */
export function shortId(id: string): string {
  return id.length <= 14 ? id : `…${id.slice(-8)}`
}
