// What is not there: an address without a page, or a row that nobody finds.
import { Link } from '@tanstack/react-router'
import { MapPinOff } from 'lucide-react'
import { PageHeader } from './PageHeader.tsx'

/** `above`: where the way back leads. Trying again is not offered: it would not be there then either. */
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
        <p>{children ?? 'There is nothing at this address. It may be mistyped.'}</p>
        <p>
          <Link to={parent.to}>Go to {parent.title}</Link>
        </p>
      </div>
    </>
  )
}
