// The options of `npm run recover`.
import type { Config } from '#core/config.ts'
import type { Sql } from '#core/db.ts'

export const RECOVER_OPTIONS = {
  messages: { type: 'string' },
  to: { type: 'string' },
  reason: { type: 'string' },
  undo: { type: 'boolean', default: false },
  yes: { type: 'boolean', default: false },
  json: { type: 'boolean', default: false },
  help: { type: 'boolean', short: 'h', default: false },
} as const

type RecoverOptions = {
  messages?: string
  to?: string
  reason?: string
  undo: boolean
  yes: boolean
  json: boolean
}
/** The context of a command. */
export type Recover = { sql: Sql; config: Config; values: RecoverOptions }
