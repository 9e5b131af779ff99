// The guide for receivers: its test vector is correct, and its code accepts Sluice's signatures and refuses other
// requests.
import { execFile } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { newWebhookSecret, signStandardWebhook } from '#core/standard-webhooks.ts'
import { findProgram } from '#start/processes.ts'
import { freePort } from '#start/ports.ts'
import { createTemporaryFolder } from '#test/folders.ts'
import { startProcess, until } from '#test/process.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const GUIDE = await readFile(join(ROOT, 'docs/guides/receiving-events.md'), 'utf8')

/** The code blocks of a language, in the order of the guide. */
const blocksOf = (language: string) =>
  Array.from(GUIDE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm')), ([, code]) => code!)
const block = (language: string, fencing = '') => blocksOf(language).find((code) => code.includes(fencing))!

const VECTOR = Object.fromEntries(
  Array.from(block('text').matchAll(/^(\S+) +(.+)$/gm), ([, name, value]) => [name!, value!]),
) as Record<'secret' | 'webhook-id' | 'webhook-timestamp' | 'webhook-signature' | 'body', string>
const { secret, body, ...HEADERS } = VECTOR
const SENT_S = Number(HEADERS['webhook-timestamp'])

/** A request at a receiver, with the receiver's secret and clock. */
type ReceivedRequest = { body: string; headers: Record<string, string>; secret: string; now_s: number }
const GENUINE: ReceivedRequest = { body, headers: HEADERS, secret, now_s: SENT_S }

/** The request with Sluice's signatures. `changes` replaces headers. */
function signed(secrets: string[], changes: Record<string, string> = {}): ReceivedRequest {
  const id = HEADERS['webhook-id']
  return {
    ...GENUINE,
    headers: { ...signStandardWebhook({ id, timestamp_s: SENT_S, body }, secrets), ...changes },
  }
}

/** A signature with an empty key, which anyone can create. */
const EMPTY_KEY = `v1,${createHmac('sha256', '').update(`${HEADERS['webhook-id']}.${SENT_S}.${body}`).digest('base64')}`

const ACCEPTED: [string, ReceivedRequest][] = [
  ['the vector', GENUINE],
  ['a request that is 300 s old', { ...GENUINE, now_s: SENT_S + 300 }],
  ['a request that is 300 s ahead', { ...GENUINE, now_s: SENT_S - 300 }],
  ['a request whose second signature is ours', signed([newWebhookSecret(), secret])],
  ['a request whose first signature is ours', signed([secret, newWebhookSecret()])],
]
const REFUSED: [string, ReceivedRequest][] = [
  ['a changed body', { ...GENUINE, body: body.replace('"sequence":42', '"sequence":43') }],
  ['a reformatted body', { ...GENUINE, body: JSON.stringify(JSON.parse(body), null, 1) }],
  ['another secret', { ...GENUINE, secret: newWebhookSecret() }],
  ['a request that is 301 s old', { ...GENUINE, now_s: SENT_S + 301 }],
  ['a request that is 301 s ahead', { ...GENUINE, now_s: SENT_S - 301 }],
  ['another id', { ...GENUINE, headers: { ...HEADERS, 'webhook-id': 'other' } }],
  ['another time', { ...GENUINE, headers: { ...HEADERS, 'webhook-timestamp': String(SENT_S + 1) } }],
  ['an invalid time', { ...GENUINE, headers: { ...HEADERS, 'webhook-timestamp': 'now' } }],
  ['no signature', { ...GENUINE, headers: { ...HEADERS, 'webhook-signature': '' } }],
  [
    'a signature of another version',
    signed([secret], { 'webhook-signature': HEADERS['webhook-signature'].replace('v1,', 'v2,') }),
  ],
  [
    'a truncated signature',
    signed([secret], { 'webhook-signature': HEADERS['webhook-signature'].slice(0, -4) }),
  ],
  ['an empty secret', { ...signed([secret], { 'webhook-signature': EMPTY_KEY }), secret: 'whsec_' }],
]

/**
 * Runs the guide's code of a language for each request in `requests.json`. The code prints one line per request:
 * `accepted`, with the event's sequence if the code returns the event, or `refused`.
 */
type Runner = { program: string; files: Record<string, string>; args: string[]; accepted?: string }

const NODE_DRIVER = `
import { readFileSync } from 'node:fs'
import { verifyWebhook } from './verify.mjs'
for (const { body, headers, secret, now_s } of JSON.parse(readFileSync('requests.json', 'utf8'))) {
  Date.now = () => now_s * 1000
  let result = 'refused'
  try { result = 'accepted ' + verifyWebhook(Buffer.from(body), headers, secret).sequence } catch {}
  console.log(result)
}
`

const RUNNERS: Record<string, Runner> = {
  Node: {
    program: 'node',
    files: { 'verify.mjs': block('js', '// verify.mjs'), 'driver.mjs': NODE_DRIVER },
    args: ['driver.mjs'],
  },
  'Node with the library': {
    program: 'node',
    files: { 'verify.mjs': block('js', '// verify-with-library.mjs'), 'driver.mjs': NODE_DRIVER },
    args: ['driver.mjs'],
  },
  Python: {
    program: 'python3',
    files: {
      'verify.py': block('python'),
      'driver.py': `
import json
from verify import verify_webhook
for request in json.load(open("requests.json", encoding="utf-8")):
    try:
        event = verify_webhook(request["body"].encode(), request["headers"], request["secret"], request["now_s"])
        print("accepted", event["sequence"])
    except ValueError:
        print("refused")
`,
    },
    args: ['driver.py'],
  },
  Go: {
    program: 'go',
    files: {
      'verify.go': block('go'),
      'main.go': `
package main

import ("encoding/json"; "fmt"; "net/http"; "os"; "time")

func main() {
	var all []struct { Body, Secret string; Headers map[string]string; Now_s int64 }
	text, _ := os.ReadFile("requests.json")
	if err := json.Unmarshal(text, &all); err != nil { panic(err) }
	for _, request := range all {
		headers := http.Header{}
		for name, value := range request.Headers { headers.Set(name, value) }
		err := VerifyWebhook([]byte(request.Body), headers, request.Secret, time.Unix(request.Now_s, 0))
		if err != nil { fmt.Println("refused") } else { fmt.Println("accepted") }
	}
}
`,
    },
    args: ['run', 'main.go', 'verify.go'],
    accepted: 'accepted',
  },
  Ruby: {
    program: 'ruby',
    files: {
      'verify.rb': block('ruby'),
      'driver.rb': `
require_relative 'verify'
JSON.parse(File.read('requests.json', encoding: 'utf-8')).each do |request|
  begin
    event = verify_webhook(request['body'], request['headers'], request['secret'], request['now_s'])
    puts "accepted #{event['sequence']}"
  rescue RuntimeError
    puts 'refused'
  end
end
`,
    },
    args: ['driver.rb'],
  },
  PHP: {
    program: 'php',
    files: {
      'verify.php': block('php'),
      'driver.php': `<?php
require 'verify.php';
foreach (json_decode(file_get_contents('requests.json'), true) as $request) {
    try {
        $event = verify_webhook($request['body'], $request['headers'], $request['secret'], $request['now_s']);
        echo 'accepted ', $event['sequence'], "\\n";
    } catch (RuntimeException $error) {
        echo "refused\\n";
    }
}
`,
    },
    args: ['driver.php'],
  },
  'bash and openssl': {
    program: 'bash',
    files: {
      'webhook.sh': block('bash'),
      'list.cjs': `
for (const { body, headers, secret, now_s } of require('./requests.json'))
  console.log([btoa(unescape(encodeURIComponent(body))), secret, ...Object.keys(headers).sort().map((name) => headers[name]), now_s].join('|'))
`,
      'driver.sh': `
. ./webhook.sh
node list.cjs | while IFS='|' read -r body secret id signature timestamp now; do
  printf '%s' "$body" | openssl base64 -d -A > body
  if verify "$secret" "$id" "$timestamp" "$signature" "$now" < body; then echo accepted; else echo refused; fi
done
`,
    },
    args: ['driver.sh'],
    accepted: 'accepted',
  },
}

const AVAILABLE_RUNNERS = Object.entries(RUNNERS).filter(([, { program }]) => findProgram([program]) !== null)

test("Sluice's signature of the test vector is the signature in the guide", () => {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp } = HEADERS
  expect(signStandardWebhook({ id, timestamp_s: Number(timestamp), body }, [secret])).toEqual(HEADERS)
  expect(JSON.parse(body)).toMatchObject({ id, sequence: 42 })
  expect(Buffer.byteLength(body)).toBeGreaterThan(body.length)
  expect(Buffer.from(secret.slice('whsec_'.length), 'base64')).toHaveLength(32)
})

/** The comparison in constant time in the code of each language. */
const COMPARES: Record<string, string> = {
  js: 'timingSafeEqual(',
  python: 'hmac.compare_digest(',
  go: 'hmac.Equal(',
  ruby: 'OpenSSL.secure_compare(',
  php: 'hash_equals(',
  bash: '"$(digest "$each")" = "$(digest "$expected")"',
}

// This is the only check of a language whose program is missing on this machine.
test.each(Object.keys(COMPARES))(
  'the %s code in the guide reads all headers and checks time, key length and signature',
  (language) => {
    const code = block(language)
    for (const part of [COMPARES[language]!, 'whsec_', 'v1,', ...Object.keys(HEADERS)])
      expect(code).toContain(part)
    expect(code).toMatch(/sha256/i)
    // The clock tolerance is 300 s; the minimum key length is 24 bytes.
    expect(code).toMatch(/> 300\b|-le 300\b/)
    expect(code).toMatch(/< 24\b|-ge 48\b/)
  },
)

test.each(AVAILABLE_RUNNERS)(
  "the guide's code for %s accepts only genuine requests",
  async (_name, runner) => {
    const { program, files, args, accepted = 'accepted 42' } = runner
    const folder = await createTemporaryFolder()
    onTestFinished(folder.remove)
    await symlink(join(ROOT, 'node_modules'), join(folder.path, 'node_modules'))
    const requests = JSON.stringify([...ACCEPTED, ...REFUSED].map(([, each]) => each))
    for (const [file, text] of Object.entries({ ...files, 'requests.json': requests }))
      await writeFile(join(folder.path, file), text)
    const { PATH, HOME } = process.env
    const output = await promisify(execFile)(program, args, { cwd: folder.path, env: { PATH, HOME } })
    const results = output.stdout.trim().split('\n')
    const names = [...ACCEPTED, ...REFUSED].map(([name]) => name)
    expect(results.map((each, at) => [names[at], each])).toEqual([
      ...ACCEPTED.map(([name]) => [name, accepted]),
      ...REFUSED.map(([name]) => [name, 'refused']),
    ])
  },
)

test("the receiver of the guide accepts a request of the guide's shell script, and refuses another secret", async () => {
  const folder = await createTemporaryFolder()
  onTestFinished(folder.remove)
  const files = {
    'verify.mjs': block('js', '// verify.mjs'),
    'receiver.mjs': block('js', '// receiver.mjs'),
    'webhook.sh': block('bash'),
    body,
  }
  for (const [file, text] of Object.entries(files)) await writeFile(join(folder.path, file), text)
  const port = await freePort('127.0.0.1')
  const receiver = await startProcess('receiver.mjs', {
    root: folder.path,
    env: { PORT: String(port), WEBHOOK_SECRET: secret },
  })
  onTestFinished(async () => void (await receiver.end()))
  const send = async (sender_secret: string) => {
    // Curl reports 000 until the receiver listens.
    const command = `. ./webhook.sh; send http://127.0.0.1:${port}/ '${sender_secret}' body || true`
    return (await promisify(execFile)('bash', ['-c', command], { cwd: folder.path })).stdout.trim()
  }
  await until('the receiver listens', async () => (await send(secret)) === '204')
  expect(await receiver.waitForLine('payment.captured')).toBe(
    `42 payment.captured ${JSON.parse(body).data.id}`,
  )
  expect(await send(newWebhookSecret())).toBe('400')
  expect(await receiver.waitForLine('wrong signature')).toBe('wrong signature')
})
