// Requests whose changes the database has lost since it accepted them: it was restored, or a standby took over that
// lacks the latest commits.
import { AppError } from '#core/errors.ts'
import type { Log } from '#core/log.ts'
import { throttle } from '#core/seldom.ts'
import type { ResourceWithJob } from '#domain/jobs/find-with-jobs.ts'
import type { ApiContext } from './context.ts'
import type { RequestKey } from './idempotent.ts'

const LOST = 'The database lost this request. Repeat it with the same idempotency key.'

/** Reads what an accepted request has written. Throws `database_unavailable` if the database has lost it. */
type ReadAccepted = {
  /** `find` reads the resource, and the job if the request has one. */
  resource: <T>(job_id: string | null, find: () => Promise<ResourceWithJob<T>>) => Promise<ResourceWithJob<T>>
  /** `explain` derives an error from the current rows. */
  refusal: (explain: () => Promise<AppError>) => Promise<AppError>
}

/** Creates a function that logs the loss of an accepted request, at most once a second. */
export const createLostCommitLog = (
  log: Log,
): ((request: Pick<RequestKey, 'tenant_id' | 'route' | 'request_id'>) => void) =>
  throttle((suppressed, request: Pick<RequestKey, 'tenant_id' | 'route' | 'request_id'>) =>
    log.error(
      { tenant_id: request.tenant_id, route: request.route, request_id: request.request_id, suppressed },
      'the database lost the commit of an accepted request: it was restored or failed over. The caller is asked to repeat the request',
    ),
  )

/** `replayed`: the request was accepted earlier, so its key shows whether the resource was deleted since. */
export function createReadAccepted(
  context: Pick<ApiContext, 'findStoredKey' | 'logLostCommit'>,
  request: RequestKey,
  replayed: boolean,
): ReadAccepted {
  async function lostUnlessStored(error: AppError): Promise<AppError> {
    const { tenant_id, key, route } = request
    if (replayed && key !== null && (await context.findStoredKey({ tenant_id, key, route })) !== undefined)
      return error
    context.logLostCommit(request)
    return new AppError('database_unavailable', { message: LOST, cause: error })
  }

  return {
    async resource(job_id, find) {
      const found = await find().catch(async (error: unknown) => {
        throw error instanceof AppError && error.status === 404 ? await lostUnlessStored(error) : error
      })
      // Jobs are retained longer than keys.
      if (job_id !== null && found.job === undefined) throw await lostUnlessStored(new AppError('not_found'))
      return found
    },
    async refusal(explain) {
      const error = await explain()
      return error.status === 404 ? await lostUnlessStored(error) : error
    },
  }
}

/** Refusals because of amounts that lost requests may have used. */
const DEPENDS_ON_LOST = new Set<string>(['insufficient_balance', 'refund_exceeds_captured'])

/**
 * The refusal of a request. While jobs wait since a switch of the database, the request may be the repetition of a lost
 * one that was accepted and even done: a refusal because of an amount, or of anything else that is `lost`, is
 * `database_unavailable` then.
 */
export function refusalUnlessHeld(
  { database }: Pick<ApiContext, 'database'>,
  refusal: AppError,
  lost = false,
): AppError {
  if (!database.isHeld() || !(lost || DEPENDS_ON_LOST.has(refusal.code))) return refusal
  // The server may have been switched since it was last checked.
  database.assertCurrent()
  return new AppError('database_unavailable', {
    message:
      'The database was restored or failed over, and what it lost is still being recovered. Repeat the request later.',
    cause: refusal,
  })
}
