// A page that could not be read.
import { SluiceError } from '#sdk/index.ts'
import { wordsOf } from '../api.ts'
import { NotFound } from './NotFound.tsx'
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
  if (error instanceof SluiceError && error.status === 404)
    return (
      <NotFound title={`${title} not found`} above={above ?? { to: '/', title: 'Overview' }}>
        {wordsOf(error)}
      </NotFound>
    )
  return (
    <>
      <PageHeader title={title} {...(above && { above })} />
      <Failed error={error} retry={retry} />
    </>
  )
}
