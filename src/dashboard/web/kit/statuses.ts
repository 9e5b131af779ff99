// All statuses: label, icon and tone.
import {
  Ban,
  Circle,
  CircleAlert,
  CircleCheck,
  CircleDashed,
  CircleDot,
  CircleHelp,
  CirclePause,
  CircleSlash,
  CircleX,
  Clock,
  Hourglass,
  LoaderCircle,
  Lock,
  Undo2,
  UserRound,
  type LucideIcon,
} from 'lucide-react'

export type Tone = 'good' | 'bad' | 'warn' | 'pending' | 'idle' | 'unknown'
export type StatusFacts = { label: string; tone: Tone; icon: LucideIcon }

const status = (tone: Tone, icon: LucideIcon, label?: string) => ({ tone, icon, label })

/**
 * The presentation of each status, by `status`, or by `resource.status` where the meaning differs by resource. A test
 * compares the table with the statuses of the API.
 */
export const STATUS_TABLE: Record<string, { tone: Tone; icon: LucideIcon; label?: string | undefined }> = {
  // In progress.
  pending: status('pending', CircleDashed),
  queued: status('idle', Clock),
  scheduled: status('idle', Clock),
  ready: status('idle', Clock),
  received: status('idle', Clock),
  waiting: status('idle', Clock),
  returned: status('idle', Undo2),
  rotated: status('idle', Undo2, 'Replaced'),
  ignored: status('idle', CircleSlash),
  running: status('pending', LoaderCircle),
  sending: status('pending', LoaderCircle),
  processing: status('pending', LoaderCircle),
  capturing: status('pending', LoaderCircle),
  canceling: status('pending', LoaderCircle),
  under_review: status('pending', LoaderCircle),
  retry: status('warn', Clock),
  retrying: status('warn', Clock),
  // Waiting for a person.
  authorized: status('pending', Lock),
  requires_action: status('warn', UserRound),
  requires_input: status('warn', UserRound),
  needs_response: status('warn', CircleAlert),
  warning: status('warn', CircleAlert),
  parked: status('warn', CirclePause),
  paused: status('warn', CirclePause),
  // Succeeded.
  captured: status('good', CircleCheck),
  succeeded: status('good', CircleCheck),
  completed: status('good', CircleCheck),
  done: status('good', CircleCheck),
  paid: status('good', CircleCheck),
  delivered: status('good', CircleCheck),
  approved: status('good', CircleCheck),
  accepted: status('good', CircleCheck),
  resolved: status('good', CircleCheck),
  applied: status('good', CircleCheck),
  won: status('good', CircleCheck),
  sent: status('good', CircleCheck),
  active: status('good', CircleDot),
  enabled: status('good', CircleDot),
  up: status('good', CircleDot),
  healthy: status('good', CircleDot),
  // Failed.
  failed: status('bad', CircleX),
  declined: status('bad', CircleX),
  undelivered: status('bad', CircleX),
  exhausted: status('bad', CircleX),
  rejected: status('bad', CircleX),
  refused: status('bad', CircleX),
  bounced: status('bad', CircleX),
  lost: status('bad', CircleX),
  failing: status('bad', CircleX),
  misconfigured: status('bad', CircleAlert),
  // Unknown.
  unknown: status('unknown', CircleHelp),
  ambiguous: status('unknown', CircleHelp),
  // Ended or inactive.
  none: status('idle', Circle),
  canceled: status('idle', Ban),
  discarded: status('idle', Ban),
  suppressed: status('idle', CircleSlash),
  skipped: status('idle', CircleSlash),
  expired: status('idle', Hourglass),
  revoked: status('idle', Ban),
  disabled: status('idle', CircleSlash),
  archived: status('idle', CircleSlash),
  deleted: status('idle', CircleSlash),
  requested: status('pending', CircleDashed),
  'kyc.none': status('idle', Circle, 'Not verified'),
  'drift.stale': status('warn', Hourglass),
  'drift.differs': status('bad', CircleAlert),
  'drift.orphan': status('bad', CircleHelp),
  'endpoint.disabled': status('bad', CircleSlash),
}

/** The presentation of a status. Unrecognized statuses get a neutral one. */
export function statusFacts(status: string, resource?: string): StatusFacts {
  const found =
    (resource === undefined ? undefined : STATUS_TABLE[`${resource}.${status}`]) ?? STATUS_TABLE[status]
  return {
    label: found?.label ?? humanize(status),
    tone: found?.tone ?? 'idle',
    icon: found?.icon ?? Circle,
  }
}

/** A name of the API as a label: `requires_action` is `Requires action`. */
export function humanize(name: string): string {
  const text = name.replaceAll(/[._-]+/g, ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}
