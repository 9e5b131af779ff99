// Floor: Fastify and a bare SELECT of one page from the product's tables.
import { requireEnv, openPool, serve } from './serve.ts'

const sql = openPool()
const tenant_id = requireEnv('TENANT_ID')

await serve((app) => {
  app.get('/customers', async (request) => {
    const { before = 'infinity' } = request.query as { before?: string }
    return await sql`
      select id, tenant_id, idempotency_key, name, email, phone, external_id, metadata, created_at, updated_at, deleted_at from customers
      where tenant_id = ${tenant_id} and created_at < ${before}::text::timestamptz and deleted_at is null order by created_at desc limit 25`
  })
  app.get('/events', async (request) => {
    const { after = '0' } = request.query as { after?: string }
    return await sql`
      select e.id, f.sequence, e.type, e.subject_id, e.data, e.created_at from feed_entries f
      join sequenced_events e on e.tenant_id = f.tenant_id and e.id = f.event_id and e.created_at = f.created_at
      where f.tenant_id = ${tenant_id} and f.sequence > ${after}::text::bigint order by f.sequence limit 25`
  })
})
