// What is not there: an address without a page, or a row that nobody finds.
import { Link } from '@tanstack/react-router'
import { MapPinOff } from 'lucide-react'
import { PageHeader } from './PageHeader.tsx'

/** `above`: where the way back leads. Trying again is not offered: it would not be there then either. */
export function NotFound({
  title,
  above,
  children,
}: {
  title: string
  above: { to: string; title: string }
  children?: string
}) {
  return (
    <>
      <PageHeader title={title} above={above} />
      <div className="state" role="alert">
        <MapPinOff size={24} strokeWidth={1.5} aria-hidden />
        <p>{children ?? 'There is nothing at this address. It may be mistyped.'}</p>
        <p>
          <Link to={above.to}>Go to {above.title}</Link>
        </p>
      </div>
    </>
  )
}
