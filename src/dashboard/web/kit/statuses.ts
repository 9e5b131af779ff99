// Every status that anything here can have: its word, its icon and its tone.
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

export type Tone = 'good' | 'bad' | 'warn' | 'going' | 'idle' | 'doubt'
export type StatusFacts = { label: string; tone: Tone; icon: LucideIcon }

const status = (tone: Tone, icon: LucideIcon, label?: string) => ({ tone, icon, label })

/** By status, or by `resource.status` where a noun means something else by it. A test compares it with what routes answer. */
export const STATUS_TABLE: Record<string, { tone: Tone; icon: LucideIcon; label?: string | undefined }> = {
  // What is under way.
  pending: status('going', CircleDashed),
  queued: status('idle', Clock),
  scheduled: status('idle', Clock),
  ready: status('idle', Clock),
  received: status('idle', Clock),
  waiting: status('idle', Clock),
  returned: status('idle', Undo2),
  rotated: status('idle', Undo2, 'Replaced'),
  ignored: status('idle', CircleSlash),
  running: status('going', LoaderCircle),
  sending: status('going', LoaderCircle),
  processing: status('going', LoaderCircle),
  capturing: status('going', LoaderCircle),
  canceling: status('going', LoaderCircle),
  under_review: status('going', LoaderCircle),
  retry: status('warn', Clock),
  retrying: status('warn', Clock),
  // What waits for somebody.
  authorized: status('going', Lock),
  requires_action: status('warn', UserRound),
  requires_input: status('warn', UserRound),
  needs_response: status('warn', CircleAlert),
  warning: status('warn', CircleAlert),
  parked: status('warn', CirclePause),
  paused: status('warn', CirclePause),
  // What went well.
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
  // What did not.
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
  // What nobody knows yet.
  unknown: status('doubt', CircleHelp),
  ambiguous: status('doubt', CircleHelp),
  // What is over or off.
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
  asked: status('going', CircleDashed),
  'kyc.none': status('idle', Circle, 'Not verified'),
  'drift.stale': status('warn', Hourglass),
  'drift.differs': status('bad', CircleAlert),
  'endpoint.disabled': status('bad', CircleSlash),
}

/** What is shown of a status; one that is not known is shown as it is written. */
export function statusFacts(status: string, resource?: string): StatusFacts {
  const found =
    (resource === undefined ? undefined : STATUS_TABLE[`${resource}.${status}`]) ?? STATUS_TABLE[status]
  return {
    label: found?.label ?? humanize(status),
    tone: found?.tone ?? 'idle',
    icon: found?.icon ?? Circle,
  }
}

/** A word of the API for people: `requires_action` is `Requires action`. */
export function humanize(name: string): string {
  const words = name.replaceAll(/[._-]+/g, ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
