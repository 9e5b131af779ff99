// A process that stops does not wait for a collector that does not answer.
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '#core/config.ts'
import { startSpan, startTracing } from '#core/tracing.ts'
import { openCollector } from '#test/collector.ts'
import { until } from '#test/process.ts'

/** `warn` is called when an export has failed. */
const startTo = async (url: string, warn = () => {}) =>
  await startTracing(loadConfig({ OTEL_EXPORTER_OTLP_ENDPOINT: url }), 'api', warn)
const endSpan = () => startSpan('work', { kind: 'internal' })!.end()

test('if the collector has not answered for two seconds, the spans that remain cost no time', async () => {
  const sockets: Socket[] = []
  const server = createServer((socket) => void sockets.push(socket.on('error', () => {})))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const tracing = await startTo(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  endSpan()
  const [requested] = await until('the spans are sent', () => sockets.length > 0 && sockets)
  await until('the request has arrived', () => requested!.bytesRead > 0)
  await sleep(2_000)
  endSpan()
  // The former limit was three seconds.
  const first = await Promise.race([tracing.close().then(() => 'closed'), sleep(1_500).then(() => 'waits')])
  expect(first).toBe('closed')
})

test('a collector that answers gets the last spans, by its name too', async () => {
  const collector = await openCollector()
  onTestFinished(() => collector.close())
  const tracing = await startTo(collector.url.replace('127.0.0.1', 'localhost'))
  endSpan()
  await tracing.close()
  expect(collector.spans).toHaveLength(1)
})

/** Starts tracing to a collector that refuses the first export and accepts later ones. */
async function startRefused() {
  const collector = await openCollector()
  onTestFinished(() => collector.close())
  const failed = Promise.withResolvers<void>()
  collector.refuse(true)
  const tracing = await startTo(collector.url, failed.resolve)
  endSpan()
  await failed.promise
  collector.refuse(false)
  return { collector, tracing }
}

test('a collector that refused an export gets the last spans once it accepts requests again', async () => {
  const { collector, tracing } = await startRefused()
  endSpan()
  await tracing.close()
  expect(collector.spans).toHaveLength(1)
})

test('if a collector hangs, a process whose last export failed ends before a process that has exported nothing yet', async () => {
  const { collector, tracing } = await startRefused()
  collector.hang()
  endSpan()
  const other = await startTo(collector.url)
  endSpan()
  const ends = [other.close().then(() => 'new'), tracing.close().then(() => 'refused before')]
  expect(await Promise.race(ends)).toBe('refused before')
})
