// What a process does differently when `npm start` supervises it: it shares the log of all parts, tells the supervisor
// how its start went, and ends when the supervisor is gone.

/**
 * Names the descriptor of the common log in the environment of a supervised process. It is no configuration: only the
 * supervisor sets it, and a process manager that also has a channel to its children does not.
 */
export const LOG_DESCRIPTOR = 'SLUICE_LOG_DESCRIPTOR'

/** Where a part listens, as far as it does. */
export type Addresses = { url?: string | undefined; operations_url?: string | undefined }

/** How the start of a supervised process went: it works, or why it cannot start, in words for the operator. */
export type StartReport = { ready: Addresses } | { refused: string }

/** The descriptor of the common log; undefined when this process is not supervised. */
export function sharedLogDescriptor(): number | undefined {
  const descriptor = process.env[LOG_DESCRIPTOR]
  return descriptor === undefined || process.channel === undefined ? undefined : Number(descriptor)
}

export function isSupervised(): boolean {
  return sharedLogDescriptor() !== undefined
}

/** Reports to the supervisor; resolves when that is on its way. Nothing happens when there is none. */
export async function reportStart(report: StartReport): Promise<void> {
  if (!isSupervised() || !process.connected) return
  await new Promise((resolve) => process.send!(report, resolve))
}

/** Calls `ended` when the supervisor has ended, however that happened. */
export function onSupervisorGone(ended: () => void): void {
  if (!isSupervised()) return
  process.once('disconnect', ended)
  if (!process.connected) ended()
}
