// The variables of the database and of the queue's server.
import { z } from 'zod'
import { problemOfDatabaseUrl } from '../postgres/address.ts'
import { parseRedisUrl } from '../redis-url.ts'
import { ALL_PROCESSES, count, SECRETS, SERVICES, type VariableRow } from './row.ts'

const databaseUrl = z
  .string()
  .superRefine((text, context) => {
    const problem = problemOfDatabaseUrl(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })
  .optional()
  .register(SECRETS, { is_reread: false })

export const DATABASE_VARIABLES = {
  DATABASE_URL: [
    databaseUrl,
    'postgres://sluice:secret@127.0.0.1:5432/sluice',
    'PostgreSQL, 18 or newer: several hosts, TLS and PgBouncer are in the guide Databases. Without it, `npm start` runs an embedded one, which commands in the same folder use; all other processes need it',
    ALL_PROCESSES,
    SERVICES,
  ],
  DATABASE_POOL: [
    count(10, 500),
    '10',
    'maximum number of connections of each process to PostgreSQL; the API reserves a quarter of them, at least two, for lists',
    SERVICES,
  ],
  ALLOW_NEWER_DATABASE: [
    z.stringbool().default(false),
    'true',
    'start even if a newer version has migrated the database, as in a rollback',
    SERVICES,
  ],
  SYNCHRONOUS_STANDBY: [
    z.stringbool().default(false),
    'true',
    'a standby that is promoted has everything that was committed: PostgreSQL waits for it with each commit (guide Databases)',
    SERVICES,
  ],
  WITNESS_URL: [
    z
      .url({ protocol: /^(file|https)$/, error: 'must be a file: or https: URL' })
      .optional()
      .register(SECRETS, { is_reread: false }),
    'file:///mnt/other-volume/sluice-witness',
    'a file on another volume or an https address that remembers what the database had, so that a restore is noticed even after Redis was lost (guide Backups, restores and failover)',
    ['api', 'worker', 'commands'],
  ],
  REDIS_URL: [
    z
      .string()
      .refine((text) => parseRedisUrl(text) !== undefined, {
        error:
          'must be redis://host:port, redis+sentinel://host:port,.../primary or redis+cluster://host:port,...',
      })
      .optional()
      .register(SECRETS, { is_reread: false }),
    'redis://127.0.0.1:6379',
    'Redis or Valkey, with `maxmemory-policy noeviction`: `redis://host:port`, `redis+sentinel://host:port,.../primary` or `redis+cluster://host:port,...`; `rediss` for TLS, `user:password@` before the host. Without it, `npm start` runs one that is on the PATH',
    [...SERVICES, 'migrate'],
  ],
  QUEUE: [
    z.enum(['redis', 'postgres']).optional(),
    'redis',
    'where BullMQ stores its queues: `redis` or `postgres`. Unset: Redis if `REDIS_URL` is set, and always in production',
    [...SERVICES, 'migrate'],
  ],
  ACCEPTED_MAX: [
    z.coerce.number().int().min(0).max(100_000_000).default(1_000_000),
    '1000000',
    'how many accepted requests Redis keeps, about 200 bytes each and together at most 256 bytes for each, to find those that are lost when the database is restored or failed over; 0: none',
    [...SERVICES],
  ],
  QUEUE_DATABASE_URL: [
    databaseUrl,
    'postgres://sluice:secret@127.0.0.1:5432/sluice',
    'with `QUEUE=postgres` behind PgBouncer: the same database without PgBouncer, because BullMQ keeps its sessions. Default: `DATABASE_URL`',
    [...SERVICES, 'migrate'],
  ],
  RESTORED_DATABASE_URL: [
    databaseUrl,
    'postgres://sluice:secret@restored-snapshot:5432/sluice',
    'the server that `npm run recover -- rehearse` checks, in place of `--restored`',
    ['commands'],
  ],
  OLD_DATABASE_URL: [
    databaseUrl,
    'postgres://sluice:secret@old-primary:5432/sluice',
    'the old primary of `npm run recover -- compare`, in place of `--with`',
    ['commands'],
  ],
} as const satisfies Record<string, VariableRow>
