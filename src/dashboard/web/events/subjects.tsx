// The subject of an event, with a link to its page.
import { Link } from '@tanstack/react-router'
import { shortId } from '../kit/Id.tsx'
import { resourceLabel, pageOfResource } from '../resources.ts'

/** The subject of an event by type and id, as a link if it has a page. */
export function EventSubject({ type, id, full = false }: { type: string; id: string; full?: boolean }) {
  const text = (
    <>
      {resourceLabel(type)} <code>{full ? id : shortId(id)}</code>
    </>
  )
  const page = pageOfResource(type, id)
  return page === undefined ? <span>{text}</span> : <Link to={page}>{text}</Link>
}
