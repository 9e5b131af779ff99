// The actor of commands in the audit log.
import { hostname, userInfo } from 'node:os'
import type { Actor } from './audit-log.ts'

/** The actor of a command, such as `npm run users`. `tenant_id`: the affected tenant; null if none. */
export function commandActor(command: string, tenant_id: string | null): Actor {
  return {
    tenant_id,
    actor: `${systemUserName()}@${hostname()} (${command})`,
    request_id: null,
    address: null,
  }
}

/** The name of the system user, or the numeric id if the user has no name, as in many containers. */
export function systemUserName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
