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
  yes: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

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
    | 'folder',
    string
  >
> &
  Record<'keep' | 'without-lists' | 'undo' | 'yes' | 'json', boolean>
/** The context of a command. */
export type Recover = { sql: Sql; config: Config; values: RecoverOptions }
