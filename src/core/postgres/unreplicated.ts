// Commits that did not wait for the synchronous standby. PostgreSQL only warns when the wait is canceled, and reports
// success. Here, such a statement fails: after a promotion of the standby, its changes may be lost.
import type postgres from 'postgres'

/**
 * The commit of a statement may be missing at the synchronous standby. The code is like those of connections that fail,
 * so the database counts as unavailable.
 */
export class UnreplicatedCommitError extends Error {
  override name = 'UnreplicatedCommitError'
  readonly code = 'CONNECTION_UNREPLICATED'
}

/** Whether PostgreSQL warns that the commit of the running statement did not wait for the synchronous standby. */
export function isUnreplicated(notice: postgres.Notice): boolean {
  // The text depends on `lc_messages`; the name of PostgreSQL's function does not.
  return notice['routine'] === 'SyncRepWaitForLSN'
}

/** Throw it in the handler of notices: postgres.js then rejects the statement to which the notice belongs. */
export function unreplicatedCommit({ message }: postgres.Notice): UnreplicatedCommitError {
  return new UnreplicatedCommitError(`a commit may be missing at the synchronous standby: ${message}`)
}
