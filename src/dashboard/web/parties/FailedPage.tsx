// The page of one thing that could not be read.
import { PageHeader } from '../kit/PageHeader.tsx'
import { Failed } from '../kit/states.tsx'

export function FailedPage({
  title,
  above,
  error,
  retry,
}: {
  title: string
  above: { to: string; title: string }
  error: Error
  retry: () => unknown
}) {
  return (
    <>
      <PageHeader title={title} above={above} />
      <Failed error={error} retry={retry} />
    </>
  )
}
