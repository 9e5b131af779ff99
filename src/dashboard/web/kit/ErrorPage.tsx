// A page that could not be loaded.
import { SluiceError } from '#sdk/index.ts'
import { errorMessage } from '../api.ts'
import { NotFound } from './NotFound.tsx'
import { PageHeader } from './PageHeader.tsx'
import { ErrorState } from './states.tsx'

/** The heading of the page and the error. `parent`: the list that the page belongs to. */
export function ErrorPage({
  title,
  parent,
  error,
  retry,
}: {
  title: string
  parent?: { to: string; title: string }
  error: Error
  retry: () => unknown
}) {
  if (error instanceof SluiceError && error.status === 404)
    return (
      <NotFound title={`${title} not found`} parent={parent ?? { to: '/', title: 'Overview' }}>
        {errorMessage(error)}
      </NotFound>
    )
  return (
    <>
      <PageHeader title={title} {...(parent && { parent })} />
      <ErrorState error={error} retry={retry} />
    </>
  )
}
