// Who asks for messages: a request, the memory that its messages take, which is bounded, and the templates that it reads.
import type { FastifyRequest } from 'fastify'
import type { Sql } from '#core/db.ts'
import { AppError } from '#core/errors.ts'
import { findTemplate } from '#domain/templates/find.ts'
import type { Template } from '#domain/templates/template.ts'

/**
 * What this process holds at once of messages that are being accepted, in bytes as they came or were rendered. Each is there
 * several times: as it came, sealed, and in its statement.
 */
const HELD_BYTES = 64 * 1024 * 1024
/** Two of the largest: no tenant keeps out all others. */
export const HELD_BYTES_OF_TENANT = HELD_BYTES / 2
/** What takes no more always finds room, and counts as nothing: there is a bound on how many wait to be written. */
const SMALL_BYTES = 8 * 1024

/** Takes room for so many bytes more. Throws `overloaded` when that would be too many, for the tenant or for the process. */
export type TakeRoom = (bytes: number) => void

/** Does `work` of a tenant while `bytes` are held, and what it takes beyond them. Throws `overloaded`. */
type Hold = <T>(tenant_id: string, bytes: number, work: (take: TakeRoom) => Promise<T>) => Promise<T>

export type Asker = {
  tenant_id: string
  /** The template with this name or id, which is read once. */
  templateOf: (name_or_id: string) => Promise<Template | undefined>
  /** Does `work` while the body of the request is held, and what it takes beyond. Throws `overloaded`. */
  hold: <T>(work: (take: TakeRoom) => Promise<T>) => Promise<T>
}

/** Finds who asks; all share one bound. */
export type AskerOf = (request: Pick<FastifyRequest, 'credentials' | 'body_bytes'>) => Asker

export function createAskers(sql: Sql): AskerOf {
  const hold = createHold()
  return ({ credentials: { tenant_id }, body_bytes = 0 }) => {
    const templates = new Map<string, Promise<Template | undefined>>()
    return {
      tenant_id,
      templateOf(name_or_id) {
        const template = templates.get(name_or_id) ?? findTemplate(sql, tenant_id, name_or_id)
        templates.set(name_or_id, template)
        return template
      },
      hold: (work) => hold(tenant_id, body_bytes, work),
    }
  }
}

export function createHold(): Hold {
  const held_by = new Map<string, number>()
  let held = 0
  const count = (tenant_id: string, bytes: number) => {
    held += bytes
    const of_tenant = (held_by.get(tenant_id) ?? 0) + bytes
    if (of_tenant === 0) held_by.delete(tenant_id)
    else held_by.set(tenant_id, of_tenant)
  }
  return async (tenant_id, bytes, work) => {
    let total = 0
    let counted = 0
    const take = (more: number) => {
      total += more
      if (total <= SMALL_BYTES) return
      const uncounted = total - counted
      if (held + uncounted > HELD_BYTES || (held_by.get(tenant_id) ?? 0) + uncounted > HELD_BYTES_OF_TENANT) {
        total -= more
        throw new AppError('overloaded', {
          message: 'Too many large messages at once. Ask again with the same key, or in smaller batches.',
        })
      }
      count(tenant_id, uncounted)
      counted = total
    }
    try {
      take(bytes)
      return await work(take)
    } finally {
      if (counted > 0) count(tenant_id, -counted)
    }
  }
}
