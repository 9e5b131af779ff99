// Ids: short in tables, whole on pages, one click to copy.
import { CopyButton } from './CopyButton.tsx'

/** An id. `short`: the end of it, for tables; the whole is copied and heard. `label` says of what it is. */
export function Id({ id, short = false, label = 'id' }: { id: string; short?: boolean; label?: string }) {
  return (
    <span className="id">
      <code title={short ? id : undefined}>{short ? shortId(id) : id}</code>
      <CopyButton text={id} label={`Copy ${label}`} />
    </span>
  )
}

/** The same, or a dash where there is none. */
export function OptionalId({ id, ...others }: { id: string | null; short?: boolean; label: string }) {
  return id === null ? '–' : <Id id={id} {...others} />
}

/** A whole id. */
export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** An id as tables show it: its last eight characters, which differ where the first are a time. */
export function shortId(id: string): string {
  return id.length <= 14 ? id : `…${id.slice(-8)}`
}
