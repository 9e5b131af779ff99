// The durable floor, the minimum for a request that is stored: Fastify, zod, a check for an authorization header, and
// one INSERT.
import { randomUUIDv7 } from 'node:crypto'
import { customerBody, openPool, serve } from './serve.ts'

const sql = openPool()
const tenant_id = randomUUIDv7()
await sql`create table if not exists floor_customers (
  tenant_id uuid not null, id uuid not null, idempotency_key text not null, name text, email text, metadata jsonb not null,
  created_at timestamptz not null default now(), primary key (tenant_id, id))`

await serve((app) => {
  app.post('/customers', async (request, reply) => {
    if (request.headers.authorization === undefined)
      return await reply.code(401).send({ error: 'unauthorized' })
    const { idempotency_key, name = null, email = null, metadata } = customerBody.parse(request.body)
    const [row] = await sql`
      insert into floor_customers (tenant_id, id, idempotency_key, name, email, metadata)
      values (${tenant_id}, ${randomUUIDv7()}, ${idempotency_key}, ${name}, ${email}, ${sql.json(metadata)}) returning *`
    return await reply.code(201).send(row)
  })
})
