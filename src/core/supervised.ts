// The behavior of a process under `npm start`: it shares the log of all parts, reports its start to the supervisor,
// and ends with the supervisor.

/**
 * The environment variable with the descriptor of the shared log. Not a setting: only the supervisor sets it. It
 * distinguishes the supervisor from other process managers with an IPC channel to their children.
 */
export const LOG_DESCRIPTOR = 'SLUICE_LOG_DESCRIPTOR'

/** The addresses of a part; empty if the part does not listen. */
export type Addresses = { url?: string | undefined; operations_url?: string | undefined }

/** The result of the start of a supervised process: its addresses, or the reason why it cannot start. */
export type StartReport = { ready: Addresses } | { refused: string }

/** The descriptor of the shared log; undefined if this process is not supervised. */
export function sharedLogDescriptor(): number | undefined {
  const descriptor = process.env[LOG_DESCRIPTOR]
  return descriptor === undefined || process.channel === undefined ? undefined : Number(descriptor)
}

export function isSupervised(): boolean {
  return sharedLogDescriptor() !== undefined
}

/** Reports to the supervisor, if there is one; resolves when the report is sent. */
export async function reportStart(report: StartReport): Promise<void> {
  if (!isSupervised() || !process.connected) return
  await new Promise((resolve) => process.send!(report, resolve))
}

/** Calls `ended` when the supervisor has ended, for any reason. */
export function onSupervisorExit(ended: () => void): void {
  if (!isSupervised()) return
  process.once('disconnect', ended)
  if (!process.connected) ended()
}
