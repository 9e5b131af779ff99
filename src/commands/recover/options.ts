// The options of `npm run recover`.
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'

export const RECOVER_OPTIONS = {
  messages: { type: 'string' },
  to: { type: 'string' },
  reason: { type: 'string' },
  with: { type: 'string' },
  since: { type: 'string' },
  backup: { type: 'string' },
  restored: { type: 'string' },
  'restore-command': { type: 'string' },
  bin: { type: 'string' },
  folder: { type: 'string' },
  keep: { type: 'boolean', default: false },
  'without-lists': { type: 'boolean', default: false },
  undo: { type: 'boolean', default: false },
  wait: { type: 'string' },
  yes: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

/** The options that each command takes besides `--json` and `--help`. */
export const OPTIONS_OF = {
  status: [],
  release: ['messages', 'without-lists', 'reason'],
  switched: ['to', 'reason', 'yes'],
  seal: ['undo', 'wait', 'yes'],
  'new-installation': ['reason', 'yes'],
  compare: ['with', 'since', 'yes'],
  rehearse: ['backup', 'restored', 'restore-command', 'to', 'bin', 'folder', 'keep', 'yes'],
} as const satisfies Record<string, readonly (keyof typeof RECOVER_OPTIONS)[]>

export type RecoverOptions = Partial<
  Record<
    | 'messages'
    | 'to'
    | 'reason'
    | 'with'
    | 'since'
    | 'backup'
    | 'restored'
    | 'restore-command'
    | 'bin'
    | 'folder'
    | 'wait',
    string
  >
> &
  Record<'keep' | 'without-lists' | 'undo' | 'yes' | 'json', boolean>
/** The context of a command. */
export type Recover = { sql: Sql; config: Config; values: RecoverOptions }
