// Pages for an unknown address and for a missing row.
import { Link } from '@tanstack/react-router'
import { MapPinOff } from 'lucide-react'
import { PageHeader } from './PageHeader.tsx'

/** `parent`: the link back. There is no retry: the result would be the same. */
export function NotFound({
  title,
  parent,
  children,
}: {
  title: string
  parent: { to: string; title: string }
  children?: string
}) {
  return (
    <>
      <PageHeader title={title} parent={parent} />
      <div className="state" role="alert">
        <MapPinOff size={24} strokeWidth={1.5} aria-hidden />
        <p>{children ?? 'There is no page at this address. Check it for typing errors.'}</p>
        <p>
          <Link to={parent.to}>Go to {parent.title}</Link>
        </p>
      </div>
    </>
  )
}
