// Loads the code of pages, each from its own file. After a deployment, an open tab may request files that no longer
// exist.
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

/** Replaces a page that failed. If its file is missing, the tab reloads, once for each file. */
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
  /** The missing file, as the browser's message names it. Empty if the message does not name it. */
  readonly file: string

  constructor(cause: unknown) {
    super('The code of a page could not be loaded.', { cause })
    this.file = cause instanceof Error ? cause.message : ''
  }
}
