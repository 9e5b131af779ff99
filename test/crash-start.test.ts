// `npm start` is interrupted during a capture, fails, is killed, and starts again with the data of the same folder.
import { createServer, type AddressInfo } from 'node:net'
import { once } from 'node:events'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EMULATORS } from '#start/emulators.ts'
import { createClient, freshKey } from '#test/client.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startProcess, until, type Process } from '#test/process.ts'
import { handleOf } from '#test/providers.ts'
import { startedProcesses, PORTS } from '#test/start.ts'
import { processStarted } from '#start/processes.ts'

let folder: Awaited<ReturnType<typeof createTemporaryFolder>>
beforeAll(async () => {
  folder = await createTemporaryFolder()
})
afterAll(async () => await folder.remove())

async function start(env: Record<string, string> = {}): Promise<Process> {
  return await startProcess('src/start/main.ts', {
    env: { ...PORTS, DATA_DIR: folder.path, ...env },
    ready: 'Ctrl-C stops everything.',
  })
}

type Started = {
  api_url: string
  webhooks_url: string
  api_key: string
  tenant_id: string
  database_url: string
  redis_url: string | null
  emulators: { stripe_url: string }
  webhook_secrets: { stripe: string }
}
const started = async (): Promise<Started> =>
  JSON.parse(await readFile(join(folder.path, 'dev.json'), 'utf8')) as Started

/** Names of the processes that have logged that they stop. */
async function stopping(): Promise<string[]> {
  return (await readFile(join(folder.path, 'sluice.log'), 'utf8'))
    .split('\n')
    .filter((line) => line.includes('stopping: finishing the work'))
    .map((line) => (JSON.parse(line) as { name: string }).name)
}

const PAYMENT = { amount_minor: 1700, currency: 'USD', method: 'card', payment_method: 'pm_card_visa' }

test('the capture of an interrupted start takes effect once, the next start shows the capture, and a killed start leaves no process', async ({
  onTestFinished,
}) => {
  const first = await start()
  onTestFinished(async () => void (await first.end('SIGTERM')))
  const before = await started()
  expect(before).toMatchObject({
    api_url: expect.stringMatching(/^http:/),
    webhooks_url: expect.stringMatching(/^http:/),
    api_key: expect.any(String),
    tenant_id: expect.any(String),
    database_url: expect.stringMatching(/^postgres:/),
    emulators: { stripe_url: expect.stringMatching(/^http:/) },
    webhook_secrets: { stripe: expect.stringMatching(/^whsec_/) },
  })
  // Only their owner can read the files with requests, secrets and payments.
  for (const file of [
    'dev.json',
    'secrets.json',
    'sluice.log',
    'stripe/stripe-journal.jsonl',
    'stripe/stripe-effects.jsonl',
  ])
    expect([file, (await stat(join(folder.path, file))).mode & 0o777]).toEqual([file, 0o600])
  const client = createClient(before.api_url, before.api_key)
  const key = freshKey()
  const created = await client.post('/v1/payments', { idempotency_key: key, ...PAYMENT })
  expect(created, created.text).toMatchObject({ status: 201, body: { status: 'authorized' } })
  const payment_id = created.body.id as string

  const match = { method: 'POST', path: '/capture$' }
  const capture_hold = await handleOf('stripe', { url: before.emulators.stripe_url }).fault({
    match,
    fault: 'hold',
  })
  const answer = client.post(`/v1/payments/${payment_id}/capture`)
  await capture_hold.hit()
  const ended = first.end('SIGINT')
  await until('the API stops', async () => (await stopping()).includes('api'))
  await capture_hold.release()
  expect([200, 202]).toContain((await answer).status)
  expect(await ended).toEqual({ code: 0, signal: null })
  await expect(fetch(before.api_url)).rejects.toThrow('fetch failed')
  await expect(fetch(before.emulators.stripe_url)).rejects.toThrow('fetch failed')

  // A failed start leaves nothing that prevents the next start.
  const occupant = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void occupant.close())
  await once(occupant, 'listening')
  const port = String((occupant.address() as AddressInfo).port)
  await expect(start({ API_PORT: port })).rejects.toThrow(`API_PORT: port ${port} is in use`)

  const second = await start()
  onTestFinished(async () => void (await second.end('SIGKILL')))
  const after = await started()
  expect(after).toMatchObject({ api_key: before.api_key, tenant_id: before.tenant_id })
  const restarted = createClient(after.api_url, after.api_key)
  const replayed = await restarted.post('/v1/payments', { idempotency_key: key, ...PAYMENT })
  expect(replayed, replayed.text).toMatchObject({ status: 201, body: { id: payment_id } })
  await until('the payment is captured', async () => {
    const { body } = await restarted.get(`/v1/payments/${payment_id}`)
    return body.status === 'captured'
  })
  const effects = await fetch(`${after.emulators.stripe_url}/_emulator/effects?effect=capture`)
  expect(await effects.json()).toMatchObject({ count: 1, amount: PAYMENT.amount_minor })

  const late_payment = await restarted.post(
    '/v1/payments',
    { idempotency_key: freshKey(), ...PAYMENT },
    { prefer: 'respond-async' },
  )
  expect(late_payment.status, late_payment.text).toBe(202)
  const parts = Object.values(await startedProcesses(folder.path))
  expect(parts).toHaveLength(['api', 'webhooks', 'worker', 'dashboard', ...Object.keys(EMULATORS)].length)
  expect(parts.every(({ pid, started }) => processStarted(pid) === started)).toBe(true)
  await second.end('SIGKILL')
  await until('the processes of the killed start have ended', () =>
    parts.every(({ pid, started }) => processStarted(pid) !== started),
  )

  const third = await start()
  onTestFinished(async () => void (await third.end('SIGTERM')))
  const { api_url, api_key } = await started()
  await until('the late payment is authorized', async () => {
    const { body } = await createClient(api_url, api_key).get(`/v1/payments/${late_payment.body.id}`)
    return body.status === 'authorized'
  })
  expect(await third.end('SIGTERM')).toEqual({ code: 0, signal: null })
})
