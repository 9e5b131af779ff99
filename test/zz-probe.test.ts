import { afterAll, beforeAll, it } from 'vitest'
import { connect } from 'node:net'
import { createWorld, type World } from '#test/world.ts'
let world: World
beforeAll(async () => { world = await createWorld({}) })
afterAll(async () => { await world?.close() })
function raw(text: string, ms = 1500): Promise<string> {
  const u = new URL(world.client.url)
  return new Promise((resolve) => {
    const s = connect(Number(u.port), u.hostname)
    let out = ''
    s.on('data', (d) => (out += d))
    s.on('close', () => resolve(out))
    s.on('error', (e) => resolve(out + String(e)))
    s.write(text, 'latin1')
    setTimeout(() => s.destroy(), ms)
  })
}
it('probes', async () => {
  process.on('uncaughtException', (e) => console.log('UNCAUGHT', e))
  const auth = `authorization: Bearer ${world.client.key}\r\n`
  const lines = [
    'GET /v1/customers?email=%00', 'GET /v1/customers?email=%ED%A0%80', 'GET /v1/customers?a%00=1', 'GET /v1/customers?email=%', 'GET /v1/%ff', 'GET /v1/customers/%ff', 'GET /v1/customers/%00',
    'GET /v1/customers/%2e%2e%2f', 'GET /v1/../v1/customers', 'GET //v1/customers', 'GET /v1//customers', 'GET /v1/customers/', 'GET /V1/customers', 'GET /v1;x=1/customers', 'GET /%76%31/customers', 'GET /v1%2fcustomers', 'GET /v1/idempotency_keys/' + 'a'.repeat(600),
    'GET /v1/idempotency_keys/' + 'a'.repeat(300), 'GET /v1', 'GET /v1?x', 'HEAD /v1/customers', 'OPTIONS /v1/customers', 'OPTIONS *', 'TRACE /v1/customers', 'PROPFIND /v1/customers', 'FOO /v1/customers', 'PUT /v1/customers', 'QUERY /v1/customers', 'CONNECT /v1/customers', 'M-SEARCH /v1/customers',
    'GET /v1/customers?before=2026-01-01T00:00:00%2B23:59', 'GET /v1/customers?before=2026-02-30T00:00:00Z', 'GET /v1/customers?before=0001-01-01T00:00:00%2B15:59','GET /v1/customers?before=9999-12-31T23:59:59-15:59', 'GET /v1/customers?limit=1&limit=2', 'GET /v1/customers?limit=1&__proto__=2','GET /v1/customers?constructor=2', 'GET /v1/payments?metadata=x&metadata[k]=v', 'GET http://evil/v1/customers', 'GET /v1#x', 'GET /v1\\customers', 'GET /v1/customers#x', 'GET /?x', 'GET /docs', 'GET /docs/', 'GET /nope','POST /v1/customers'
  ]
  for (const l of lines) for (const a of [auth, '']) {
    const r = await raw(`${l} HTTP/1.1\r\nhost: x\r\n${a}connection: close\r\n\r\n`)
    const [head, ...b] = r.split('\r\n\r\n')
    console.log((a ? 'AUTH ' : 'ANON ') + l.slice(0, 80), '=>', head!.split('\r\n')[0], '|', b.join('').slice(0, 260).replaceAll('\n',' '), head!.includes('x-request-id') ? '' : 'NO-REQUEST-ID', head!.includes('ratelimit-policy') ? '' : 'NO-RL')
  }
}, 120000)
