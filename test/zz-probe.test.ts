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
  const lines = [ 'GET /v1/%ff','GET /v1/customers/%ff','GET /v1/customers?email=%00','GET /v1/customers?email=%ED%A0%80','GET /v1/customers?a%00=1', 'GET /v1/customers?email=%','GET /%76%31/customers','GET /%76%31/nope','GET http://evil/v1/customers','GET http://evil/v1/nope','FOO /v1', 'GET /v1/payments?metadata=x&metadata[k]=v','GET /v1/payments?metadata[k]=x&metadata[k]=v','GET /v1/payments?metadata[k]=x&metadata[l]=v','GET /v1/payments?metadata[__proto__]=x&metadata[constructor]=v','GET /v1/customers?before=2026-01-01T00:00:00%2B23:59','GET /?%ff','GET /docs/?%ff', 'GET /v1/idempotency_keys/' + 'a'.repeat(600),
  ]
  for (const l of lines) for (const a of [auth, '']) {
    const r = await raw(`${l} HTTP/1.1\r\nhost: x\r\n${a}connection: close\r\n\r\n`)
    const [head, ...b] = r.split('\r\n\r\n')
    console.log('%s', (a ? 'AUTH ' : 'ANON ') + l.slice(0, 80), '=>', head!.split('\r\n')[0], '|', b.join('').slice(0, 200).replaceAll('\n',' '), head!.includes('x-request-id') ? '' : 'NO-REQUEST-ID', head!.includes('ratelimit-policy') ? '' : 'NO-RL')
  }
}, 120000)
