// The actor of commands in the audit log.
import { hostname, userInfo } from 'node:os'
import type { Actor } from './audit-log.ts'

/** `tenant_id`: the affected tenant; null if none. `command`: such as `npm run users`. */
export function commandActor(command: string, tenant_id: string | null): Actor {
  return {
    tenant_id,
    actor: `${systemUserName()}@${hostname()} (${command})`,
    request_id: null,
    address: null,
  }
}

/** The numeric id if it has no name, as in many containers. */
export function systemUserName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
