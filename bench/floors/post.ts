// Floor: undici and one HMAC per event. `GET /post?seconds=5&url=...` posts for that long and returns the number of
// accepted events.
import { Pool } from 'undici'
import { signStandardWebhook } from '#core/standard-webhooks.ts'
import { requireEnv, serve } from './serve.ts'

/** The maximum number of concurrent deliveries of the product's worker. */
const IN_FLIGHT = Number(requireEnv('DELIVERY_CONCURRENCY'))
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`

await serve((app) => {
  app.get<{ Querystring: { seconds: string; url: string; body: string } }>('/post', async ({ query }) => {
    const { origin, pathname } = new URL(query.url)
    const pool = new Pool(origin, { connections: IN_FLIGHT })
    const until = performance.now() + Number(query.seconds) * 1000
    let posted = 0
    const postLoop = async () => {
      while (performance.now() < until) {
        const id = crypto.randomUUID()
        const body = JSON.stringify({ id, timestamp: new Date().toISOString(), data: query.body })
        const signed = signStandardWebhook({ id, timestamp_s: Date.now() / 1000, body }, [SECRET])
        const headers = { 'content-type': 'application/json', ...signed }
        const answer = await pool.request({ path: pathname, method: 'POST', headers, body })
        await answer.body.dump()
        posted += 1
      }
    }
    await Promise.all(Array.from({ length: IN_FLIGHT }, postLoop))
    await pool.close()
    return { posted }
  })
})
