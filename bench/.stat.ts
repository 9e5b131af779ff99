import { readdirSync, readFileSync } from 'node:fs'
import { startSystem } from './system.ts'
import { openPayments } from './measures/captures/payments.ts'
import { createCustomers } from './measures/customers.ts'
import { closedLoop, type Load } from './load.ts'
const system = await startSystem({ seconds: 3, rounds: 1, rows: 1000, profile: null, log: console.error })
function cpu(): Map<string, number> {
  const out = new Map<string, number>()
  const byPid = new Map<number, { name: string; ppid: number; ms: number; cmd: string }>()
  for (const d of readdirSync('/proc'))
    if (/^\d+$/.test(d))
      try {
        const s = readFileSync(`/proc/${d}/stat`, 'utf8')
        const f = s.slice(s.lastIndexOf(')') + 2).split(' ')
        byPid.set(Number(d), {
          name: '',
          ppid: Number(f[1]),
          ms: (Number(f[11]) + Number(f[12])) * 10,
          cmd: readFileSync(`/proc/${d}/cmdline`, 'utf8').replaceAll('\0', ' '),
        })
      } catch {}
  const me = process.pid
  for (const [pid, p] of byPid) {
    const mine = (q: number): boolean =>
      q === me || (byPid.has(q) && byPid.get(q)!.ppid > 1 && mine(byPid.get(q)!.ppid))
    if (!mine(pid)) continue
    const n =
      pid === me
        ? 'load'
        : p.cmd.includes('postgres')
          ? 'postgres'
          : p.cmd.includes('redis-server')
            ? 'redis'
            : (/src\/(\w+)/.exec(p.cmd)?.[1] ?? /floors\/([\w-]+)/.exec(p.cmd)?.[1] ?? p.cmd)
    out.set(n, (out.get(n) ?? 0) + p.ms)
  }
  return out
}
async function run(name: string, work: () => Promise<Load>) {
  await system.sql`select pg_stat_statements_reset()`
  const before = cpu()
  const l = await work()
  const after = cpu()
  console.log(
    `\n== ${name}: ${l.rate.toFixed(0)}/s p50 ${l.p50_ms.toFixed(2)} p99 ${l.p99_ms.toFixed(2)}; CPU us each:`,
    [...after]
      .map(([k, v]) => `${k} ${(((v - (before.get(k) ?? 0)) * 1000) / l.count).toFixed(0)}`)
      .join(', '),
  )
  const rows =
    await system.sql`select calls, rows, round(total_exec_time) as total, round(mean_exec_time::numeric,3) as mean, round(min_exec_time::numeric,3) as min, shared_blks_hit as hit, wal_records, wal_bytes, toplevel, regexp_replace(query, '\s+', ' ', 'g') as q from pg_stat_statements order by total_exec_time desc limit 12`
  for (const r of rows)
    console.log(
      `  ${r.total} ms, ${r.calls} calls, ${r.rows} rows, mean ${r.mean} min ${r.min}, hit/row ${(Number(r.hit) / Math.max(1, Number(r.rows))).toFixed(0)}, wal B/row ${(Number(r.wal_bytes) / Math.max(1, Number(r.rows))).toFixed(0)} top=${r.toplevel} ${String(r.q).slice(0, 90)} | ${[
        ...String(r.q).matchAll(/(insert into|update) (\w+)/g),
      ]
        .map((m) => m[2])
        .join(' ')
        .slice(0, 100)}`,
    )
}
try {
  await system.sql.unsafe(`alter system set pg_stat_statements.track = 'all'`)
  await system.sql.unsafe('select pg_reload_conf()')
  const api = await system.startProduct('api')
  const worker = await system.startProduct('workers')
  const hooks = process.env.FULL
  await createCustomers(api.url, '/v1/customers', system.keys, 2)
  await run('create customer 64', () => createCustomers(api.url, '/v1/customers', system.keys, 5))
  const p = openPayments(system, api.url)
  await p.authorize(64, 2)
  await run('authorize 64', () => p.authorize(64, 6))
  await run('authorize 256', () => p.authorize(256, 6))
  await p.settled()
  await system.sql`vacuum analyze`
  await closedLoop({ url: api.url, connections: 64, seconds: 2, expect: 200, next: p.next })
  await run('capture 1', () =>
    closedLoop({ url: api.url, connections: 1, seconds: 4, expect: 200, next: p.next }),
  )
  await run('capture 64', () =>
    closedLoop({ url: api.url, connections: 64, seconds: 4, expect: 200, next: p.next }),
  )
  await run('capture 256', () =>
    closedLoop({ url: api.url, connections: 256, seconds: 4, expect: 200, next: p.next }),
  )
  console.log('memory', api.rssMb(), worker.rssMb())
  await api.stop()
  await worker.stop()
} finally {
  await system.stop()
}
