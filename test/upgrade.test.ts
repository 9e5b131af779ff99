// The previous release is upgraded to this one under load, while a session that forgot its `begin` holds locks.
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '#start/ports.ts'
import { createClient, type Client } from '#test/client.ts'
import { createDeployment } from '#test/deployment.ts'
import { HOST } from '#test/environment.ts'
import { expectNothingLost, startLoad } from '#test/load.ts'
import { migrateWithForgottenSession } from '#test/operator-migration.ts'
import {
  excludeFromStatementAudit,
  nextRelease,
  NoHistoryError,
  previousRelease,
} from '#test/previous-release.ts'
import { until } from '#test/process.ts'

const CLIENTS = 3

/** A client that sends each request to the next of the APIs. `answered`: the number of answers of each. */
function alternating(apis: Client[]): Client & { answered: number[] } {
  let sent = 0
  const answered = apis.map(() => 0)
  return {
    ...apis[0]!,
    answered,
    async post(path, body, headers) {
      const nth = sent++ % apis.length
      const answer = await apis[nth]!.post(path, body, headers)
      answered[nth] = (answered[nth] ?? 0) + 1
      return answer
    },
  }
}

test('both releases serve during an upgrade and after a rollback, no statement deadlocks, and nothing is lost or doubled', async ({
  skip,
}) => {
  const previous = await previousRelease().catch((error: unknown) =>
    error instanceof NoHistoryError ? skip(error.message) : Promise.reject(error),
  )
  const next = await nextRelease()
  onTestFinished(async () => void (await Promise.all([previous.remove(), next.remove()])))
  const deployment = await createDeployment({ queue: 'redis', webhooks: true, release: previous })
  const audited = await excludeFromStatementAudit(deployment.sql)
  onTestFinished(() => audited.exclude())
  onTestFinished(() => deployment.close())
  const { client, sql, env } = deployment
  const [old_api, old_worker] = await Promise.all([deployment.startApi(), deployment.startWorker()])
  const apis = [client]
  const both = alternating(apis)
  const load = startLoad(both, { clients: CLIENTS, pause_ms: 100 })
  await load.untilPaid(CLIENTS)

  const { output } = await migrateWithForgottenSession(next, env['DATABASE_URL']!, { ...env }, 3)
  expect(output).toContain('0902_payment_tokens.concurrently.sql: runs outside a transaction')
  expect(output).toMatch(/Applied .*0901_payment_tokens\.sql.*0907_job_notes\.concurrently\.sql\.$/)
  await load.untilPaid(CLIENTS)

  const port = String(await freePort(HOST))
  const [, new_worker] = await Promise.all([
    deployment.startApi({ API_PORT: port }, next),
    deployment.startWorker({}, next),
  ])
  apis.push(createClient(`http://${HOST}:${port}`, client.key))
  await until('both releases have answered', () => both.answered[1]! > CLIENTS)
  await old_worker.end('SIGTERM')
  await load.untilPaid(CLIENTS)
  apis.shift()
  await old_api.end('SIGTERM')
  await load.untilPaid(CLIENTS)
  await deployment.startWorker({ ALLOW_NEWER_DATABASE: 'true' })
  await new_worker.end('SIGTERM')
  await load.untilPaid(CLIENTS)

  await expectNothingLost(deployment, await load.stop())
  const [row] = await sql`
    select (select deadlocks::integer from pg_stat_database where datname = current_database()) as deadlocks,
      (select count(*)::integer from payments where token is null) as unfilled,
      (select indisvalid from pg_index where indexrelid = 'payments_token'::regclass) as has_index,
      (select convalidated from pg_constraint where conname = 'payments_have_tokens') as is_checked`
  expect(row).toEqual({ deadlocks: 0, unfilled: 0, has_index: true, is_checked: true })
})
