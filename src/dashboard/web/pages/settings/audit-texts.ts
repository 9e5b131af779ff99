// Labels of the actions in the audit log.
import { humanize } from '../../kit/statuses.ts'

/** The label of an action: `Capture payment` for `capturePayment`, `Keys: revoke` for `keys.revoke`. */
export function formatAuditAction(action: string): string {
  const [resource, verb] = action.split('.')
  if (resource !== undefined && verb !== undefined)
    return `${humanize(resource)}: ${humanize(verb).toLowerCase()}`
  return humanize(
    action.replaceAll(/([a-z])([A-Z])/g, (_, end: string, begin: string) => `${end} ${begin.toLowerCase()}`),
  )
}
