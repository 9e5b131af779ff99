// Floor: Fastify alone.
import { serve } from './serve.ts'

await serve((app) => {
  app.get('/', () => ({ ok: true }))
})
