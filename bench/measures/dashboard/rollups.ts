// Fills the roll-up tables to their maximum: two days by the minute and 90 days by the hour, for all queues, names of
// jobs and busy tenants.
import postgres from 'postgres'
import { QUEUES } from '#core/config/queues.ts'
import { BOUNDS_MS } from '#domain/rollups/histograms.ts'
import { JOB_NAMES } from '#jobs/index.ts'

/** Writes the roll-ups. The running system adds later ones. */
export async function fillRollups(database_url: string): Promise<void> {
  const sql = postgres(database_url, { max: 1, onnotice: () => {} })
  const names = ['', ...JOB_NAMES]
  const histogram = `array(select (random() * 100)::integer from generate_series(1, ${BOUNDS_MS.length + 1}))`
  const times = (resolution: number, minutes: string) => {
    const span = resolution === 60 ? minutes : '90 days'
    const unit = resolution === 60 ? 'minute' : 'hour'
    return `generate_series(date_trunc('${unit}', now()) - interval '${span}', date_trunc('${unit}', now()), interval '1 ${unit}') at`
  }
  try {
    for (const resolution of [60, 3600])
      await sql.unsafe(`
        insert into job_rollups (resolution, at, queue, name, succeeded, failed, attempts, wait, run, arrived, due, later, running, unknown,
            parked, refused, in_doubt, oldest_due_s, sampled_at)
          select ${resolution}, at, queue, name, 1000, 10, 1020, h.counts, h.counts, 1010, 5, 5, 5, 0, 0, 0, 0, 1, at
          from ${times(resolution, '2 days')}, unnest('{${QUEUES.join()}}'::text[]) queue, unnest('{"${names.join('","')}"}'::text[]) name,
            (select ${histogram} as counts) h
          where name = '' or hashtext(queue || name) % 4 = 0
          on conflict do nothing;
        insert into tenant_rollups (resolution, at, queue, tenant_id, finished, run_ms)
          select ${resolution}, at, queue, tenant.id, 50, 5000
          from ${times(resolution, '3 hours')}, unnest('{${QUEUES.join()}}'::text[]) queue,
            (select id from tenants where slug like 'bench-%' order by slug limit ${resolution === 60 ? 20 : 50}) tenant
          on conflict do nothing`)
    await sql.unsafe(`
      insert into payment_days (tenant_id, day, currency, kind, count, amount_minor)
        select tenant.id, day, currency, kind, 1000, 1000000
        from (select id from tenants where slug like 'bench-%') tenant, generate_series(current_date - 89, current_date, interval '1 day') day,
          unnest('{USD,EUR,GBP}'::text[]) currency, unnest('{created,authorized,captured,canceled,failed,refunded}'::text[]) kind
        on conflict do nothing`)
    await sql.unsafe('vacuum (analyze) job_rollups, tenant_rollups, payment_days')
  } finally {
    await sql.end()
  }
}
