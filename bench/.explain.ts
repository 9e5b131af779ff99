import { startSystem } from './system.ts'
import { openPayments } from './measures/captures/payments.ts'
import { closedLoop } from './load.ts'
import { cpSync, readdirSync } from 'node:fs'
const system = await startSystem({ seconds: 3, rounds: 1, rows: 1000, profile: null, log: console.error })
try {
  const api = await system.startProduct('api')
  const worker = await system.startProduct('workers')
  const p = openPayments(system, api.url)
  const l = await p.authorize(64, 6)
  await p.settled()
  await system.sql`vacuum analyze`
  await system.sql.unsafe(`alter system set session_preload_libraries = 'auto_explain'`)
  await system.sql.unsafe(`alter system set auto_explain.log_min_duration = 0`)
  await system.sql.unsafe(`alter system set auto_explain.log_analyze = on`)
  await system.sql.unsafe(`alter system set auto_explain.log_buffers = on`)
  await system.sql.unsafe(`alter system set auto_explain.log_nested_statements = on`)
  await system.sql.unsafe(`alter system set auto_explain.log_triggers = on`)
  await system.sql.unsafe(`select pg_reload_conf()`)
  const admin = system.sql
  await admin`select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'sluice-%'`
  await new Promise(r => setTimeout(r, 1500))
  const c = await closedLoop({ url: api.url, connections: 1, seconds: 2, expect: 200, next: p.next })
  console.log('one', c.count, c.p50_ms)
  const d = await closedLoop({ url: api.url, connections: 64, seconds: 1, expect: 200, next: p.next })
  console.log('64', d.count, d.p50_ms)
  const [row] = await system.sql`show data_directory`
  cpSync(String(row!.data_directory) + '/../server.log', '/tmp/explain.log')
  await api.stop(); await worker.stop()
} finally { await system.stop() }
