// Helpers of the floors: a Fastify that prints its URL and ends on SIGTERM.
import Fastify, { type FastifyInstance } from 'fastify'
import postgres from 'postgres'
import { z } from 'zod'

/** The size of the product's pool. */
const POOL_SIZE = 10

export function openPool(): postgres.Sql {
  return postgres(requireEnv('DATABASE_URL'), { max: POOL_SIZE, onnotice: () => {} })
}

export function requireEnv(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw new Error(`${name} is not set`)
  return value
}

/** The body of `POST /customers`. */
export const customerBody = z.strictObject({
  idempotency_key: z.string().min(1).max(255),
  name: z.string().max(256).nullish(),
  email: z.string().max(320).nullish(),
  metadata: z.json().default({}),
})

/** Starts a floor with these routes on PORT. Default: a free port. */
export async function serve(routes: (app: FastifyInstance) => void): Promise<void> {
  const app = Fastify()
  routes(app)
  const url = await app.listen({ host: '127.0.0.1', port: Number(process.env.PORT ?? 0) })
  console.log(JSON.stringify({ url }))
  process.once('SIGTERM', () => process.exit(0))
}
