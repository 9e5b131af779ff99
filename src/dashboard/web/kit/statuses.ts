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
export type StatusFacts = { word: string; tone: Tone; icon: LucideIcon }

const is = (tone: Tone, icon: LucideIcon, word?: string) => ({ tone, icon, word })

/** By status, or by `noun.status` where a noun means something else by it. A test compares it with what routes answer. */
export const STATUS_TABLE: Record<string, { tone: Tone; icon: LucideIcon; word?: string | undefined }> = {
  // What is under way.
  pending: is('going', CircleDashed),
  queued: is('idle', Clock),
  scheduled: is('idle', Clock),
  ready: is('idle', Clock),
  received: is('idle', Clock),
  waiting: is('idle', Clock),
  returned: is('idle', Undo2),
  rotated: is('idle', Undo2, 'Replaced'),
  ignored: is('idle', CircleSlash),
  running: is('going', LoaderCircle),
  sending: is('going', LoaderCircle),
  processing: is('going', LoaderCircle),
  capturing: is('going', LoaderCircle),
  canceling: is('going', LoaderCircle),
  under_review: is('going', LoaderCircle),
  retry: is('warn', Clock),
  retrying: is('warn', Clock),
  // What waits for somebody.
  authorized: is('going', Lock),
  requires_action: is('warn', UserRound),
  requires_input: is('warn', UserRound),
  needs_response: is('warn', CircleAlert),
  warning: is('warn', CircleAlert),
  parked: is('warn', CirclePause),
  paused: is('warn', CirclePause),
  // What went well.
  captured: is('good', CircleCheck),
  succeeded: is('good', CircleCheck),
  completed: is('good', CircleCheck),
  done: is('good', CircleCheck),
  paid: is('good', CircleCheck),
  delivered: is('good', CircleCheck),
  approved: is('good', CircleCheck),
  accepted: is('good', CircleCheck),
  resolved: is('good', CircleCheck),
  applied: is('good', CircleCheck),
  won: is('good', CircleCheck),
  sent: is('good', CircleCheck),
  active: is('good', CircleDot),
  enabled: is('good', CircleDot),
  up: is('good', CircleDot),
  healthy: is('good', CircleDot),
  // What did not.
  failed: is('bad', CircleX),
  declined: is('bad', CircleX),
  undelivered: is('bad', CircleX),
  exhausted: is('bad', CircleX),
  rejected: is('bad', CircleX),
  refused: is('bad', CircleX),
  bounced: is('bad', CircleX),
  lost: is('bad', CircleX),
  failing: is('bad', CircleX),
  misconfigured: is('bad', CircleAlert),
  // What nobody knows yet.
  unknown: is('doubt', CircleHelp),
  ambiguous: is('doubt', CircleHelp),
  // What is over or off.
  none: is('idle', Circle),
  canceled: is('idle', Ban),
  discarded: is('idle', Ban),
  suppressed: is('idle', CircleSlash),
  skipped: is('idle', CircleSlash),
  expired: is('idle', Hourglass),
  revoked: is('idle', Ban),
  disabled: is('idle', CircleSlash),
  archived: is('idle', CircleSlash),
  deleted: is('idle', CircleSlash),
  asked: is('going', CircleDashed),
  'kyc.none': is('idle', Circle, 'Not verified'),
  'drift.stale': is('warn', Hourglass),
  'drift.differs': is('bad', CircleAlert),
  'endpoint.disabled': is('bad', CircleSlash),
}

/** What is shown of a status; one that is not known is shown as it is written. */
export function statusFacts(status: string, noun?: string): StatusFacts {
  const found = (noun === undefined ? undefined : STATUS_TABLE[`${noun}.${status}`]) ?? STATUS_TABLE[status]
  return {
    word: found?.word ?? inWords(status),
    tone: found?.tone ?? 'idle',
    icon: found?.icon ?? Circle,
  }
}

/** A word of the API for people: `requires_action` is `Requires action`. */
export function inWords(name: string): string {
  const words = name.replaceAll(/[._-]+/g, ' ')
  return words.charAt(0).toUpperCase() + words.slice(1)
}
