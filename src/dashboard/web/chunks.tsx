// The code of pages, each in a file of its own. A tab that was open while the pages were built anew asks for files that are gone.
import { useEffect, type FunctionComponent } from 'react'
import { PageSkeleton } from './kit/Skeleton.tsx'
import { ErrorState } from './kit/states.tsx'

/** Loads the code of a page. Throws `ChunkError`. */
export async function loadPage<Name extends string>(
  load: () => Promise<Record<Name, FunctionComponent>>,
  name: Name,
): Promise<{ default: FunctionComponent }> {
  try {
    return { default: (await load())[name] }
  } catch (cause) {
    throw new ChunkError(cause)
  }
}

/** What is shown in place of a page that failed. One whose code is gone is reloaded, once for each file. */
export function PageError({ error, reset }: { error: unknown; reset: () => void }) {
  const file = error instanceof ChunkError ? error.file : undefined
  const reloads = file !== undefined && sessionStorage.getItem(RELOADED_FILE_KEY) !== file
  useEffect(() => {
    if (!reloads || file === undefined) return
    sessionStorage.setItem(RELOADED_FILE_KEY, file)
    location.reload()
  }, [reloads, file])
  if (reloads) return <PageSkeleton />
  if (file !== undefined)
    return (
      <ErrorState
        error={new Error('The code of this page could not be loaded.')}
        retry={() => location.reload()}
        action="Reload page"
      />
    )
  return <ErrorState error={error instanceof Error ? error : new Error(String(error))} retry={reset} />
}

const RELOADED_FILE_KEY = 'sluice-reloaded-for'

class ChunkError extends Error {
  /** Browsers name it in their message; where one does not, all files count as one. */
  readonly file: string

  constructor(cause: unknown) {
    super('The code of a page could not be loaded.', { cause })
    this.file = cause instanceof Error ? cause.message : ''
  }
}
