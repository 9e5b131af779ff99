// Whoever runs a command, as the audit log names them.
import { hostname, userInfo } from 'node:os'
import type { Actor } from './audit-log.ts'

/** `tenant_id`: whom it is about; null for what is about no tenant. `command`: such as `npm run users`. */
export function commandActor(command: string, tenant_id: string | null): Actor {
  return {
    tenant_id,
    actor: `${systemUserName()}@${hostname()} (${command})`,
    request_id: null,
    address: null,
  }
}

/** The number where there is no name for it, as in many containers. */
export function systemUserName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.()}`
  }
}
