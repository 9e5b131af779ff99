// What events are about, and where its page is.
import { Link } from '@tanstack/react-router'
import { shortId } from '../kit/Id.tsx'
import { nounWords, pageOfNoun } from '../nouns.ts'

/** The subject of an event by its kind and id, as a link where it has a page. */
export function EventSubject({ type, id, whole = false }: { type: string; id: string; whole?: boolean }) {
  const text = (
    <>
      {nounWords(type)} <code>{whole ? id : shortId(id)}</code>
    </>
  )
  const page = pageOfNoun(type, id)
  return page === undefined ? <span>{text}</span> : <Link to={page}>{text}</Link>
}
