// What events are about, and where its page is.
import { Link } from '@tanstack/react-router'
import { shortId } from '../kit/Id.tsx'
import { resourceLabel, pageOfResource } from '../resources.ts'

/** The subject of an event by its kind and id, as a link where it has a page. */
export function EventSubject({ type, id, full = false }: { type: string; id: string; full?: boolean }) {
  const text = (
    <>
      {resourceLabel(type)} <code>{full ? id : shortId(id)}</code>
    </>
  )
  const page = pageOfResource(type, id)
  return page === undefined ? <span>{text}</span> : <Link to={page}>{text}</Link>
}
