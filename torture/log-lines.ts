// Log lines of processes that tell what the processes noticed.

/** A process has noticed that its database is no longer in use, until it is started again. */
export const SUPERSEDED = 'another server of this database is in use'
export const STARTED = '/metrics and /readyz listen'
