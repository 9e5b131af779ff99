// Posts to webhook URLs of tenants: public addresses only, bounded responses, deadlines, TLS.
import { createServer as createHttpsServer } from 'node:https'
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { createServer, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createLookup, type Lookup } from '#core/lookup.ts'
import { networksOf } from '#core/public-addresses.ts'
import { problemOfTenantUrl } from '#core/tenant-urls.ts'
import { openReceivers, type ReceiverOptions, type ReceiverPost } from '#providers/receivers.ts'
import { certificate, certificateKey } from '#test/certificate.ts'
import { openNameServer } from '#test/name-server.ts'
import { PRIVATE_HOSTS } from '#test/private-hosts.ts'
import { httpAnswer, listening, openReceiver, untilClosed } from '#test/receiver.ts'

const LOOPBACK = networksOf(['127.0.0.0/8'])
const NO_NETWORKS = networksOf([])
const toLoopback: Lookup = () => Promise.resolve(['127.0.0.1'])
const REFUSED = {
  error: 'address_refused',
  message: 'the address does not resolve or is not public',
  duration_ms: expect.any(Number),
}

/**
 * Returns a function that posts to a receiver, with default headers and body. Receivers in the loopback network are
 * allowed unless `options` overrides this.
 */
function openPost(options: Partial<ReceiverOptions> = {}) {
  const receivers = openReceivers({ allowed: LOOPBACK, production: false, lookup: toLoopback, ...options })
  onTestFinished(() => receivers.close())
  return (url: string, request: Partial<ReceiverPost> = {}, signal = new AbortController().signal) =>
    receivers.post({ url, headers: {}, body: '{"a":1}', valid: () => true, ...request }, signal)
}

/** Starts a receiver that answers each request with this response. */
async function startReceiver(response: string | ((socket: Socket, request: string) => void)) {
  const respond = typeof response === 'string' ? (socket: Socket) => void socket.write(response) : response
  const opened = await openReceiver(respond)
  onTestFinished(() => opened.close())
  return {
    ...opened,
    url: `http://127.0.0.1:${opened.port}/hook?a=b`,
    named: `http://hooks.example:${opened.port}/`,
  }
}

test('a post sends one request with its bytes, its headers and the standard headers, and reports the response', async () => {
  const { named, port, requests } = await startReceiver(httpAnswer(200, 'thanks'))
  const post = openPost()
  const headers = { 'webhook-id': 'evt_1', 'X-Mine': 'a b' }
  expect(await post(`${named}a%20b?c=d`, { headers, body: Buffer.from('{"ä":1}') })).toEqual({
    status: 200,
    retry_after_ms: null,
    excerpt: 'thanks',
    duration_ms: expect.any(Number),
  })
  const [head, body] = Buffer.from(requests[0]!, 'latin1').toString('utf8').split('\r\n\r\n')
  const [first, ...lines] = head!.split('\r\n')
  expect(first).toBe('POST /a%20b?c=d HTTP/1.1')
  expect(new Set(lines)).toEqual(
    new Set([
      `host: hooks.example:${port}`,
      'connection: keep-alive',
      'webhook-id: evt_1',
      'X-Mine: a b',
      'accept-encoding: identity',
      'content-type: application/json',
      'user-agent: Sluice-Webhooks/1',
      'content-length: 8',
    ]),
  )
  expect(body).toBe('{"ä":1}')
})

test('connections are reused, and idle connections are closed', async () => {
  const { url, sockets } = await startReceiver(httpAnswer(204, '', { 'keep-alive': 'timeout=3' }))
  const post = openPost()
  for (let at = 0; at < 20; at++) expect(await post(url)).toMatchObject({ status: 204 })
  // A connection can be reused only after an iteration of the event loop.
  expect(sockets.length).toBeLessThanOrEqual(2)
  for (let at = 0; at < 10; at++) await Promise.all(Array.from({ length: 5 }, () => post(url)))
  expect(sockets.length).toBeLessThanOrEqual(10)
  await untilClosed(sockets)
  expect(await post(url)).toMatchObject({ status: 204 })
})

test.for([...PRIVATE_HOSTS, 'localhost', 'LOCALHOST.', 'hooks.localhost'])(
  'nothing is sent to http://%s',
  async (host) => {
    const { port, sockets } = await startReceiver(httpAnswer(200))
    const post = openPost({ allowed: NO_NETWORKS, lookup: createLookup({ hosts: false }) })
    expect(await post(`http://${host}:${port}/`)).toEqual(REFUSED)
    expect(await post(`https://${host}:${port}/`)).toEqual(REFUSED)
    expect(sockets).toEqual([])
  },
)

test('a host name with a private address and a host name that does not resolve are refused with the same error', async () => {
  const { named, sockets, port } = await startReceiver(httpAnswer(200))
  const zone: Record<string, string[]> = {
    'private.example': ['127.0.0.1'],
    'mapped.example': ['::ffff:127.0.0.1'],
    'mixed.example': ['8.8.8.8', '127.0.0.1'],
    'mixed6.example': ['8.8.8.8', '::1'],
    'empty.example': [],
  }
  const server = await openNameServer((name) => zone[name])
  onTestFinished(() => server.close())
  const post = openPost({
    allowed: NO_NETWORKS,
    lookup: createLookup({ hosts: false, servers: [server.address] }),
  })
  for (const name of [...Object.keys(zone), 'nowhere.example'])
    expect([name, await post(`http://${name}:${port}/`)]).toEqual([name, REFUSED])
  // Every address in the result of a lookup is checked.
  for (const address of ['127.1', 'localhost', '::1%lo', ''])
    expect(await openPost({ allowed: NO_NETWORKS, lookup: async () => [address] })(named)).toEqual(REFUSED)
  expect(sockets).toEqual([])
})

test('a host name whose address is public at registration and private later is refused', async () => {
  const { named, sockets } = await startReceiver(httpAnswer(200))
  const answers = [['8.8.8.8'], ['127.0.0.1']]
  const lookup: Lookup = async () => answers.shift()!
  expect(await problemOfTenantUrl(named, { production: false, allowed: NO_NETWORKS, lookup })).toBe(null)
  expect(await openPost({ allowed: NO_NETWORKS, lookup })(named)).toEqual(REFUSED)
  expect([sockets, answers]).toEqual([[], []])
})

test('a connection goes to the checked address, without a second lookup', async () => {
  const { named, sockets } = await startReceiver(
    (socket) => void socket.end(httpAnswer(200, 'a', { connection: 'close' })),
  )
  const answers = [['127.0.0.1'], ['127.0.0.1'], ['10.0.0.1']]
  const lookup: Lookup = async () => answers.shift()!
  const post = openPost({ lookup })
  // Every new connection makes one lookup.
  expect(await post(named)).toMatchObject({ status: 200 })
  expect(await post(named)).toMatchObject({ status: 200 })
  expect(answers).toHaveLength(1)
  expect(await post(named)).toEqual(REFUSED)
  expect(sockets).toHaveLength(2)
})

test('the next address of a host name is tried when the first address refuses connections', async () => {
  const { named } = await startReceiver(httpAnswer(200))
  expect(await openPost({ lookup: async () => ['127.0.0.2', '127.0.0.1'] })(named)).toMatchObject({
    status: 200,
  })
})

test('in production a post needs https and an allowed port, even to registered URLs', async () => {
  const { url, port, sockets } = await startReceiver(httpAnswer(200))
  const post = openPost({ production: true })
  expect(await post(url)).toEqual(REFUSED)
  expect(await post(`https://127.0.0.1:${port}/`)).toEqual(REFUSED)
  expect(sockets).toEqual([])
})

test('a redirect counts as the response and is not followed', async () => {
  const other = await startReceiver(httpAnswer(200))
  for (const status of [301, 302, 303, 307, 308]) {
    const { url } = await startReceiver(httpAnswer(status, '', { location: other.url }))
    expect(await openPost()(url)).toMatchObject({ status })
  }
  expect(other.sockets).toEqual([])
})

test('an excerpt is storable text of at most 1,000 bytes, or 200 bytes if the response is a success, and is never decompressed', async () => {
  const excerpt = async (body: Buffer, headers: Record<string, string> = {}, status = 500) => {
    const head = Buffer.from(httpAnswer(status, '', { ...headers, 'content-length': String(body.length) }))
    const { url } = await startReceiver((socket) => void socket.write(Buffer.concat([head, body])))
    return ((await openPost()(url)) as { excerpt: string }).excerpt
  }
  expect(await excerpt(Buffer.from('a\tb\r\nä 😀'))).toBe('a\tb\r\nä 😀')
  expect(await excerpt(Buffer.from('a\u0000b\u001b[31m\u007f'))).toBe('a\ufffdb\ufffd[31m\ufffd')
  expect(await excerpt(Buffer.from([0x61, 0xff, 0xed, 0xa0, 0x80, 0xc3]))).toBe(
    'a\ufffd\ufffd\ufffd\ufffd\ufffd',
  )
  expect(await excerpt(Buffer.from('x'.repeat(5000)))).toBe('x'.repeat(1000))
  expect(await excerpt(Buffer.from('€'.repeat(5000)))).toBe('€'.repeat(333))
  expect(await excerpt(Buffer.from(`x${'😀'.repeat(2000)}`))).toBe(`x${'😀'.repeat(249)}`)
  // Each invalid byte becomes a replacement character of three bytes.
  expect(await excerpt(Buffer.alloc(5000, 0xff))).toBe('\ufffd'.repeat(333))
  for (const status of [200, 299])
    expect(await excerpt(Buffer.from('€'.repeat(5000)), {}, status)).toBe('€'.repeat(66))
  const bomb = await excerpt(gzipSync(Buffer.alloc(1_000_000, 'secret')), { 'content-encoding': 'gzip' })
  expect(bomb).toMatch(/^\ufffd{3}/)
  expect(bomb).not.toContain('secret')
  // oxlint-disable-next-line no-control-regex -- the excerpt may not contain these
  expect(bomb).not.toMatch(/[\u0000-\u0008\u000e-\u001f]/)
})

test('only the beginning of an endless response is read', async () => {
  const block = Buffer.alloc(64 * 1024, 'x')
  let written = 0
  const { url, sockets } = await startReceiver((socket) => {
    socket.write(httpAnswer(200, '', { 'content-length': String(100 * 1024 * 1024) }))
    const write = () => {
      while (!socket.destroyed && socket.write(block)) written += block.length
    }
    socket.on('drain', write)
    write()
  })
  const post = openPost()
  expect(await post(url)).toMatchObject({ status: 200, excerpt: 'x'.repeat(200) })
  await untilClosed(sockets)
  // The receiver can write at most as many bytes as the socket buffers on both sides hold.
  expect(written).toBeLessThan(16 * 1024 * 1024)
  expect(await post(url)).toMatchObject({ status: 200 })
  expect(sockets).toHaveLength(2)
})

test('the status of a response counts even if the body is slow, incomplete or invalid', async () => {
  const head = httpAnswer(200, '', { 'content-length': '100' })
  const trickling = await startReceiver((socket) => {
    socket.write(`${head}a`)
    const timer = setInterval(() => void socket.write('a'), 100)
    socket.on('close', () => clearInterval(timer))
  })
  expect(await openPost()(trickling.url)).toMatchObject({
    status: 200,
    excerpt: expect.stringMatching(/^a+$/),
  })
  await untilClosed(trickling.sockets)
  const broken = await startReceiver((socket) => void socket.end(`${head}half`))
  expect(await openPost()(broken.url)).toMatchObject({ status: 200, excerpt: 'half' })
  const silent = await startReceiver((socket) => void socket.write(head))
  expect(await openPost()(silent.url)).toMatchObject({ status: 200, excerpt: '' })
  const garbled = await startReceiver(
    (socket) => void socket.write(`HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\nnot a length`),
  )
  expect(await openPost()(garbled.url)).toMatchObject({ status: 503, excerpt: '' })
})

test('informational responses are skipped', async () => {
  const early = await startReceiver(`HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n${httpAnswer(410, 'gone')}`)
  expect(await openPost()(early.url)).toMatchObject({ status: 410, excerpt: 'gone' })
  // Informational responses are also skipped if they were not requested, if there are several, and if they arrive byte
  // by byte.
  for (const first of [
    'HTTP/1.1 100 Continue\r\n\r\n',
    'HTTP/1.1 100 Continue\r\nvia: a\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 \r\n\r\n',
    'HTTP/1.1 100 Continue\r\n\r\n'.repeat(8),
  ])
    for (const answer of [
      first + httpAnswer(202, 'taken'),
      (socket: Socket) => {
        const writeBytewise = async () => {
          for (const byte of first) {
            socket.write(byte)
            await setImmediate()
          }
          socket.write(httpAnswer(202, 'taken'))
        }
        void writeBytewise()
      },
    ]) {
      const post = openPost()
      const { url } = await startReceiver(answer)
      // The next request reuses the connection.
      for (let n = 0; n < 2; n++) expect(await post(url)).toMatchObject({ status: 202, excerpt: 'taken' })
    }
  const only = await startReceiver('HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n')
  expect(await openPost({ deadline_ms: 200 })(only.url)).toMatchObject({ error: 'timeout' })
})

/** Writes `first`, then `block` endlessly, as fast as the peer reads. Counts the bytes. */
function flood(first: string, block: string) {
  const piece = block.repeat(Math.ceil((64 * 1024) / block.length))
  const flooded = { bytes: 0 }
  return {
    flooded,
    answer: (socket: Socket) => {
      socket.write(first)
      const write = () => {
        while (!socket.destroyed && socket.write(piece)) flooded.bytes += piece.length
      }
      socket.on('drain', write)
      write()
    },
  }
}

const EARLY = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'
const LONG_EARLY = `HTTP/1.1 103 Early Hints\r\nlink: ${'a'.repeat(15 * 1024)}\r\n\r\n`

test('a receiver that never sends a final response is disconnected', async () => {
  const post = openPost({ deadline_ms: 60_000 })
  const { answer } = flood('', EARLY)
  const endless = await startReceiver(answer)
  expect(await post(endless.url)).toMatchObject({
    error: 'bad_answer',
    message: 'the answer is not valid HTTP/1.1, or is too long',
  })
  await untilClosed(endless.sockets)
  const many = await startReceiver(EARLY.repeat(9))
  expect(await post(many.url)).toMatchObject({ error: 'bad_answer' })
  await untilClosed(many.sockets)
  const few = await startReceiver(`${EARLY.repeat(8)}${httpAnswer(200, 'at last')}`)
  expect(await post(few.url)).toMatchObject({ status: 200, excerpt: 'at last' })
  // Few informational responses, each of them long.
  const long = await startReceiver(LONG_EARLY.repeat(8))
  expect(await post(long.url)).toMatchObject({ error: 'bad_answer' })
  await untilClosed(long.sockets)
})

test('the size of a response without its body is limited', async () => {
  const { answer, flooded } = flood('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;', 'a=b;')
  const { url, sockets } = await startReceiver(answer)
  expect(await openPost()(url)).toMatchObject({ status: 200, excerpt: '' })
  await untilClosed(sockets)
  expect(flooded.bytes).toBeLessThan(16 * 1024 * 1024)
})

test('the size limit of a response does not include earlier responses on its connection', async () => {
  const { url, sockets } = await startReceiver(httpAnswer(200, 'a'.repeat(15 * 1024)))
  const post = openPost()
  for (let at = 0; at < 20; at++) expect(await post(url)).toMatchObject({ status: 200 })
  expect(sockets.length).toBeLessThanOrEqual(2)
})

test('a post fails at the deadline if no headers arrive or no connection opens', async () => {
  const silent = await startReceiver(() => {})
  const post = openPost({ deadline_ms: 200 })
  expect(await post(silent.url)).toEqual({
    error: 'timeout',
    message: 'no answer in time',
    duration_ms: expect.any(Number),
  })
  await untilClosed(silent.sockets)
  const trickling = await startReceiver((socket) => {
    socket.write('HTTP/1.1 200 OK\r\n')
    const timer = setInterval(() => void socket.write('a: b\r\n'), 50)
    socket.on('close', () => clearInterval(timer))
  })
  expect(await post(trickling.url)).toMatchObject({ error: 'timeout' })
  const unresolved = openPost({ deadline_ms: 200, lookup: () => new Promise(() => {}) })
  expect(await unresolved('http://slow.example/')).toMatchObject({ error: 'timeout' })
})

test('a lost connection, a refused connection and an invalid response have different errors', async () => {
  const reported = async (answer: (socket: Socket) => void) =>
    await openPost()((await startReceiver(answer)).url)
  expect(await reported((socket) => void socket.resetAndDestroy())).toMatchObject({
    error: 'connection_lost',
  })
  expect(await reported((socket) => void socket.end())).toMatchObject({ error: 'connection_lost' })
  for (const text of [
    'SSH-2.0-OpenSSH_9.9\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    'HTTP/1.1 100 Continue\r\n\r\n220 mail.example ESMTP\r\n',
    'HTTP/1.1 100 Continue\r\n\r\n'.repeat(9),
  ])
    expect([text, await reported((socket) => void socket.write(text))]).toEqual([
      text,
      expect.objectContaining({ error: 'bad_answer' }),
    ])
  const long = `HTTP/1.1 200 OK\r\na: ${'a'.repeat(100_000)}\r\n\r\n`
  expect(await reported((socket) => void socket.write(long))).toMatchObject({ error: 'bad_answer' })
  const closed = await openReceiver(() => {})
  await closed.close()
  expect(await openPost()(`http://127.0.0.1:${closed.port}/`)).toMatchObject({ error: 'connect_failed' })
})

test('Retry-After is read in seconds or as a date, and the delay is at most two days', async () => {
  const readRetryAfter = async (value: string) => {
    const { url } = await startReceiver(httpAnswer(503, '', { 'retry-after': value }))
    return ((await openPost()(url)) as { retry_after_ms: number | null }).retry_after_ms
  }
  expect(await readRetryAfter('120')).toBe(120_000)
  expect(await readRetryAfter('0')).toBe(0)
  expect(await readRetryAfter('9'.repeat(400))).toBe(48 * 3600 * 1000)
  const later = await readRetryAfter(new Date(Date.now() + 3600_000).toUTCString())
  expect(later).toBeGreaterThan(3500_000)
  expect(later).toBeLessThanOrEqual(3600_000)
  expect(await readRetryAfter(new Date(0).toUTCString())).toBe(0)
  for (const value of ['soon', '-5', '1.5', '2999-01-01', '']) expect(await readRetryAfter(value)).toBe(null)
})

test('a request that becomes invalid while its connection opens, or whose signal is aborted, is not sent', async () => {
  const { url, requests } = await startReceiver(httpAnswer(200))
  const post = openPost()
  let checks = 0
  const valid = () => ++checks > 1
  expect(await post(url, { valid })).toMatchObject({ error: 'not_sent', message: 'not sent' })
  expect(await post(url, {}, AbortSignal.abort())).toMatchObject({ error: 'not_sent' })
  expect(requests).toEqual([])
  expect(await post(url, { valid })).toMatchObject({ status: 200 })
  expect([checks, requests.length]).toEqual([2, 1])
})

test('an abort ends the wait for a response and closes its connection', async () => {
  const stop = new AbortController()
  const { url, sockets } = await startReceiver(() => stop.abort())
  expect(await openPost()(url, {}, stop.signal)).toMatchObject({ error: 'abandoned' })
  await untilClosed(sockets)
})

/** Starts a server for hooks.example that answers 200 over TLS. */
async function startTlsReceiver() {
  /** `names`: the server names of the TLS handshakes. `hosts`: the Host headers of the requests. */
  const names: string[] = []
  const hosts: string[] = []
  const SNICallback = (name: string, done: (error: null) => void) => {
    names.push(name)
    done(null)
  }
  const server = createHttpsServer(
    { key: certificateKey, cert: certificate, SNICallback },
    (request, response) => {
      hosts.push(request.headers.host!)
      response.end('thanks')
    },
  )
  onTestFinished(() => void server.close())
  return { port: await listening(server), names, hosts }
}

function trustTestCertificate(): void {
  const trusted = getCACertificates('default')
  setDefaultCACertificates([...trusted, certificate])
  onTestFinished(() => setDefaultCACertificates(trusted))
}

test('a self-signed certificate is refused before a byte of the request is sent', async () => {
  const { port, names, hosts } = await startTlsReceiver()
  expect(await openPost()(`https://hooks.example:${port}/`)).toEqual({
    error: 'tls_failed',
    message:
      'the TLS handshake failed, or the certificate is not valid for this name (DEPTH_ZERO_SELF_SIGNED_CERT)',
    duration_ms: expect.any(Number),
  })
  expect([names, hosts]).toEqual([['hooks.example'], []])
  // A server without TLS, and a server that ends the handshake.
  for (const respond of [
    (socket: Socket) => void socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'),
    (socket: Socket) => void socket.once('data', () => socket.resetAndDestroy()),
  ]) {
    const plain = createServer((socket) => {
      socket.on('error', () => {})
      respond(socket)
    })
    const plain_port = await listening(plain)
    onTestFinished(() => void plain.close())
    expect(await openPost()(`https://hooks.example:${plain_port}/`)).toMatchObject({ error: 'tls_failed' })
  }
})

test('the size of informational responses over TLS is limited', async () => {
  trustTestCertificate()
  const server = createTlsServer({ key: certificateKey, cert: certificate }, (socket) => {
    socket.on('error', () => {})
    socket.once('data', () => void socket.write(LONG_EARLY.repeat(8)))
  })
  const port = await listening(server)
  onTestFinished(() => void server.close())
  expect(await openPost({ deadline_ms: 60_000 })(`https://hooks.example:${port}/`)).toMatchObject({
    error: 'bad_answer',
  })
})

test('TLS and the request use the host name of the URL, and the certificate must be valid for that name', async () => {
  const { port, names, hosts } = await startTlsReceiver()
  trustTestCertificate()
  const post = openPost()
  for (const _ of [1, 2, 3]) {
    const answer = await post(`https://hooks.example:${port}/`)
    expect(answer).toMatchObject({ status: 200, excerpt: 'thanks' })
  }
  expect(new Set(names)).toEqual(new Set(['hooks.example']))
  expect(hosts).toEqual(Array.from({ length: 3 }, () => `hooks.example:${port}`))
  for (const host of ['other.example', '127.0.0.1'])
    expect(await post(`https://${host}:${port}/`)).toMatchObject({
      error: 'tls_failed',
      message: expect.stringContaining('(ERR_TLS_CERT_ALTNAME_INVALID)'),
    })
  expect(hosts).toHaveLength(3)
})
