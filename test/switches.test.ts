// Tests switches of the database: a restore or a failover is noticed, and what it may have undone is not done twice.
import { expect, test as anyTest } from 'vitest'
import { decodeFacts, encodeFacts } from '#domain/switches/facts.ts'
import type { ServerFacts } from '#domain/switches/server.ts'
import { testIn } from '#test/world.ts'

const test = testIn()

const FACTS: ServerFacts = {
  system_identifier: '7713151949102442985',
  timeline: 3,
  lsn: '00000001AB000028',
  xid: '743',
  clock: '2026-11-28T09:28:53.000001Z',
  switch: 9,
}

anyTest('of two texts of facts, the greater one has the newer facts', () => {
  const newer = [
    FACTS,
    { ...FACTS, lsn: '00000001AB000030' },
    { ...FACTS, lsn: '000000A000000000' },
    { ...FACTS, switch: 10, timeline: 2, lsn: '0000000000000001' },
  ]
  const texts = newer.map(encodeFacts)
  expect(texts.toSorted()).toEqual(texts)
  expect(texts.map(decodeFacts)).toEqual(newer)
  expect(['', 'x', '{}', null].map(decodeFacts)).toEqual([null, null, null, null])
})

test('x', async ({ world }) => {
  const { sql } = world
  console.log(await sql`select * from lineage`)
  await sql`update lineage set timeline = timeline - 1`
  await new Promise((resolve) => setTimeout(resolve, 1500))
  console.log(await sql`select * from lineage`, await sql`select * from database_switches`)
  await sql`update database_switches set lists_read_at = now()`
  console.log(await sql`select * from lineage`, await sql`select * from database_switches`)
})
