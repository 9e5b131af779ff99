// What the HTTP client of providers believes of an answer, whoever sends it.
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

async function answered(text: string, options?: { max_response_bytes: number }) {
  body = text
  const http = openHttp(url, options)
  try {
    return (await http.send({ path: '/', method: 'GET' }, 5000)).body
  } finally {
    await http.close()
  }
}

test('what no database can store is removed, and all else is left as it is', async () => {
  expect(await answered(String.raw`{"a\u0000":"b\u0000","half":"\ud83d","whole":"\ud83d\ude00"}`)).toEqual({
    a: 'b',
    half: '\ufffd',
    whole: '😀',
  })
})

test('an answer that is too long for its provider is not read', async () => {
  const text = JSON.stringify({ a: 'a'.repeat(1000) })
  expect(await answered(text, { max_response_bytes: 1100 })).toEqual({ a: 'a'.repeat(1000) })
  await expect(answered(text, { max_response_bytes: 900 })).rejects.toThrow(
    'the answer is longer than 900 bytes',
  )
})
