// The guide for receivers: its vector is right, and its code takes what we sign and refuses everything else.
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
import { makeFolder } from '#test/folders.ts'
import { startProcess, until } from '#test/process.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const GUIDE = await readFile(join(ROOT, 'docs/guides/receiving-events.md'), 'utf8')

/** The blocks of code of a language, in their order. */
const blocksOf = (language: string) =>
  Array.from(GUIDE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm')), ([, code]) => code!)
const block = (language: string, fencing = '') => blocksOf(language).find((code) => code.includes(fencing))!

const VECTOR = Object.fromEntries(
  Array.from(block('text').matchAll(/^(\S+) +(.+)$/gm), ([, name, value]) => [name!, value!]),
) as Record<'secret' | 'webhook-id' | 'webhook-timestamp' | 'webhook-signature' | 'body', string>
const { secret, body, ...HEADERS } = VECTOR
const SENT_S = Number(HEADERS['webhook-timestamp'])

/** What a receiver is given. */
type ReceivedRequest = { body: string; headers: Record<string, string>; secret: string; now_s: number }
const GENUINE: ReceivedRequest = { body, headers: HEADERS, secret, now_s: SENT_S }

/** Signed by us, with other headers in the end where these are given. */
function signed(secrets: string[], more: Record<string, string> = {}): ReceivedRequest {
  const id = HEADERS['webhook-id']
  return {
    ...GENUINE,
    headers: { ...signStandardWebhook({ id, timestamp_s: SENT_S, body }, secrets), ...more },
  }
}

/** What anybody can sign where a receiver has no secret. */
const EMPTY_KEY = `v1,${createHmac('sha256', '').update(`${HEADERS['webhook-id']}.${SENT_S}.${body}`).digest('base64')}`

const TAKEN: [string, ReceivedRequest][] = [
  ['the vector', GENUINE],
  ['one that is 300 s old', { ...GENUINE, now_s: SENT_S + 300 }],
  ['one whose clock is 300 s ahead', { ...GENUINE, now_s: SENT_S - 300 }],
  ['one with the signature of an older secret before ours', signed([newWebhookSecret(), secret])],
  ['one with the signature of a newer secret behind ours', signed([secret, newWebhookSecret()])],
]
const REFUSED: [string, ReceivedRequest][] = [
  ['a changed body', { ...GENUINE, body: body.replace('"sequence":42', '"sequence":43') }],
  ['a body that was written anew', { ...GENUINE, body: JSON.stringify(JSON.parse(body), null, 1) }],
  ['another secret', { ...GENUINE, secret: newWebhookSecret() }],
  ['one that is 301 s old', { ...GENUINE, now_s: SENT_S + 301 }],
  ['one whose clock is 301 s ahead', { ...GENUINE, now_s: SENT_S - 301 }],
  ['another id', { ...GENUINE, headers: { ...HEADERS, 'webhook-id': 'other' } }],
  ['another time', { ...GENUINE, headers: { ...HEADERS, 'webhook-timestamp': String(SENT_S + 1) } }],
  ['a time that is none', { ...GENUINE, headers: { ...HEADERS, 'webhook-timestamp': 'now' } }],
  ['no signature', { ...GENUINE, headers: { ...HEADERS, 'webhook-signature': '' } }],
  [
    'a signature of another version',
    signed([secret], { 'webhook-signature': HEADERS['webhook-signature'].replace('v1,', 'v2,') }),
  ],
  [
    'a signature that is cut off',
    signed([secret], { 'webhook-signature': HEADERS['webhook-signature'].slice(0, -4) }),
  ],
  [
    'a secret that was not configured',
    { ...signed([secret], { 'webhook-signature': EMPTY_KEY }), secret: 'whsec_' },
  ],
]

/**
 * What runs the code of a language on each of `arrived.json`, and prints a line for each: that it was taken, with its
 * sequence where the code gives the event, or `refused`.
 */
type Runner = { program: string; files: Record<string, string>; args: string[]; taken?: string }

const NODE_DRIVER = `
import { readFileSync } from 'node:fs'
import { verifyWebhook } from './verify.mjs'
for (const { body, headers, secret, now_s } of JSON.parse(readFileSync('arrived.json', 'utf8'))) {
  Date.now = () => now_s * 1000
  let told = 'refused'
  try { told = 'taken ' + verifyWebhook(Buffer.from(body), headers, secret).sequence } catch {}
  console.log(told)
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
for arrived in json.load(open("arrived.json", encoding="utf-8")):
    try:
        event = verify_webhook(arrived["body"].encode(), arrived["headers"], arrived["secret"], arrived["now_s"])
        print("taken", event["sequence"])
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
	text, _ := os.ReadFile("arrived.json")
	if err := json.Unmarshal(text, &all); err != nil { panic(err) }
	for _, arrived := range all {
		headers := http.Header{}
		for name, value := range arrived.Headers { headers.Set(name, value) }
		err := VerifyWebhook([]byte(arrived.Body), headers, arrived.Secret, time.Unix(arrived.Now_s, 0))
		if err != nil { fmt.Println("refused") } else { fmt.Println("taken") }
	}
}
`,
    },
    args: ['run', 'main.go', 'verify.go'],
    taken: 'taken',
  },
  Ruby: {
    program: 'ruby',
    files: {
      'verify.rb': block('ruby'),
      'driver.rb': `
require_relative 'verify'
JSON.parse(File.read('arrived.json', encoding: 'utf-8')).each do |arrived|
  begin
    event = verify_webhook(arrived['body'], arrived['headers'], arrived['secret'], arrived['now_s'])
    puts "taken #{event['sequence']}"
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
foreach (json_decode(file_get_contents('arrived.json'), true) as $arrived) {
    try {
        $event = verify_webhook($arrived['body'], $arrived['headers'], $arrived['secret'], $arrived['now_s']);
        echo 'taken ', $event['sequence'], "\\n";
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
for (const { body, headers, secret, now_s } of require('./arrived.json'))
  console.log([btoa(unescape(encodeURIComponent(body))), secret, ...Object.keys(headers).sort().map((name) => headers[name]), now_s].join('|'))
`,
      'driver.sh': `
. ./webhook.sh
node list.cjs | while IFS='|' read -r body secret id signature timestamp now; do
  printf '%s' "$body" | openssl base64 -d -A > body
  if verify "$secret" "$id" "$timestamp" "$signature" "$now" < body; then echo taken; else echo refused; fi
done
`,
    },
    args: ['driver.sh'],
    taken: 'taken',
  },
}

const HERE = Object.entries(RUNNERS).filter(([, { program }]) => findProgram([program]) !== null)

test('the vector is what we sign', () => {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp } = HEADERS
  expect(signStandardWebhook({ id, timestamp_s: Number(timestamp), body }, [secret])).toEqual(HEADERS)
  expect(JSON.parse(body)).toMatchObject({ id, sequence: 42 })
  expect(Buffer.byteLength(body)).toBeGreaterThan(body.length)
  expect(Buffer.from(secret.slice('whsec_'.length), 'base64')).toHaveLength(32)
})

/** How the code of each language compares in constant time. */
const COMPARES: Record<string, string> = {
  js: 'timingSafeEqual(',
  python: 'hmac.compare_digest(',
  go: 'hmac.Equal(',
  ruby: 'OpenSSL.secure_compare(',
  php: 'hash_equals(',
  bash: '"$(digest "$each")" = "$(digest "$expected")"',
}

// All that is known of a language that this machine has no program for.
test.each(Object.keys(COMPARES))(
  'the %s in the guide reads all of the vector, as it must be read',
  (language) => {
    const code = block(language)
    for (const part of [COMPARES[language]!, 'whsec_', 'v1,', ...Object.keys(HEADERS)])
      expect(code).toContain(part)
    expect(code).toMatch(/sha256/i)
    // The time may be so far off; a key may not be shorter.
    expect(code).toMatch(/> 300\b|-le 300\b/)
    expect(code).toMatch(/< 24\b|-ge 48\b/)
  },
)

test.each(HERE)('the code for %s takes what is genuine and nothing else', async (_name, runner) => {
  const { program, files, args, taken = 'taken 42' } = runner
  const folder = await makeFolder()
  onTestFinished(folder.remove)
  await symlink(join(ROOT, 'node_modules'), join(folder.path, 'node_modules'))
  const arrived = JSON.stringify([...TAKEN, ...REFUSED].map(([, each]) => each))
  for (const [file, text] of Object.entries({ ...files, 'arrived.json': arrived }))
    await writeFile(join(folder.path, file), text)
  const { PATH, HOME } = process.env
  const ran = await promisify(execFile)(program, args, { cwd: folder.path, env: { PATH, HOME } })
  const told = ran.stdout.trim().split('\n')
  const names = [...TAKEN, ...REFUSED].map(([name]) => name)
  expect(told.map((each, at) => [names[at], each])).toEqual([
    ...TAKEN.map(([name]) => [name, taken]),
    ...REFUSED.map(([name]) => [name, 'refused']),
  ])
})

test('what is sent by hand arrives at the receiver, and with another secret it is refused', async () => {
  const folder = await makeFolder()
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
  const send = async (by: string) => {
    // Curl says 000 where nobody listens yet.
    const command = `. ./webhook.sh; send http://127.0.0.1:${port}/ '${by}' body || true`
    return (await promisify(execFile)('bash', ['-c', command], { cwd: folder.path })).stdout.trim()
  }
  await until('the receiver listens', async () => (await send(secret)) === '204')
  expect(await receiver.waitForLine('payment.captured')).toBe(
    `42 payment.captured ${JSON.parse(body).data.id}`,
  )
  expect(await send(newWebhookSecret())).toBe('400')
  expect(await receiver.waitForLine('wrong signature')).toBe('wrong signature')
})
