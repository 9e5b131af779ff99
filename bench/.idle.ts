import { startSystem } from './system.ts'
import { openPayments } from './measures/captures/payments.ts'
import { closedLoop } from './load.ts'
const system = await startSystem({ seconds: 3, rounds: 1, rows: 1000, profile: null, log: console.error })
try {
  const api = await system.startProduct('api')
  const worker = await system.startProduct('workers')
  const p = openPayments(system, api.url)
  const l = await p.authorize(64, 4)
  await p.settled()
  const cap = async (w: string) => { const c = await closedLoop({ url: api.url, connections: 1, seconds: 3, expect: 200, next: p.next })
  console.log(w, 'one', c.count, c.p50_ms.toFixed(2), c.p99_ms.toFixed(2)) }
  await cap('fresh')
  await system.sql`vacuum analyze`
  await cap('after vacuum analyze')
  await new Promise(r => setTimeout(r, 2000))
  await cap('after pause')
  await system.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'sluice-%'`
  await new Promise(r => setTimeout(r, 1500))
  await cap('after kill')
  await cap('after kill')
  const d = await closedLoop({ url: api.url, connections: 64, seconds: 1, expect: 200, next: p.next })
  console.log('64', d.count, d.p50_ms)
  await api.stop(); await worker.stop()
} finally { await system.stop() }
