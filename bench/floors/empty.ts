// Floor: Fastify and nothing else.
import { serve } from './serve.ts'

await serve((app) => {
  app.get('/', () => ({ ok: true }))
})
