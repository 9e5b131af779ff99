// Tests the HTTP client of providers with malformed and long responses.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openHttp } from '#providers/http.ts'

let body = ''
const server = createServer((_request, response) => void response.end(body))
let url: string
beforeAll(async () => {
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => new Promise((closed) => server.close(closed)))

async function receive(text: string, options?: { max_response_bytes: number }) {
  body = text
  const http = openHttp(url, options)
  try {
    return (await http.send({ path: '/', method: 'GET' }, 5000)).body
  } finally {
    await http.close()
  }
}

test('characters that a database cannot store are removed from a response, and all other characters are kept', async () => {
  expect(await receive(String.raw`{"a\u0000":"b\u0000","half":"\ud83d","whole":"\ud83d\ude00"}`)).toEqual({
    a: 'b',
    half: '\ufffd',
    whole: '😀',
  })
})

test('a response that exceeds the size limit of its provider is refused', async () => {
  const text = JSON.stringify({ a: 'a'.repeat(1000) })
  expect(await receive(text, { max_response_bytes: 1100 })).toEqual({ a: 'a'.repeat(1000) })
  await expect(receive(text, { max_response_bytes: 900 })).rejects.toThrow(
    'the answer is longer than 900 bytes',
  )
})
