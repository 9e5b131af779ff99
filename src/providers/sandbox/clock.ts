// What the clock of a tenant in test mode needs of the host of its sandbox. An engine moves with `followClock`.

export type SandboxClock = {
  /**
   * When the next change that a tenant's sandbox has scheduled is due, by the tenant's clock, as ISO 8601; null if
   * nothing is scheduled.
   */
  nextDueAt(tenant_id: string): Promise<string | null>
  /**
   * Moves the sandbox to a clock that is this far ahead of the real time, and performs what is due by then, with its
   * events. Harmless if repeated.
   */
  follow(tenant_id: string, offset_ms: number): Promise<void>
}
