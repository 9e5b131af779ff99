// A page that could not be read.
import { PageHeader } from './PageHeader.tsx'
import { Failed } from './states.tsx'

/** The heading of the page, and in place of the rest what failed. `above`: the list that it belongs to. */
export function FailedPage({
  title,
  above,
  error,
  retry,
}: {
  title: string
  above?: { to: string; title: string }
  error: Error
  retry: () => unknown
}) {
  return (
    <>
      <PageHeader title={title} {...(above && { above })} />
      <Failed error={error} retry={retry} />
    </>
  )
}
