// The limits of the inbox of a tenant in test mode.
import { expect } from 'vitest'
import { newId } from '#core/ids.ts'
import { createVault } from '#core/secrets.ts'
import { findInInbox, storeInInbox } from '#domain/sandboxes/inbox.ts'
import { testIn, type World } from '#test/world.ts'

const test = testIn({ parts: ['api'] })

async function store(
  { sql, env }: World,
  tenant_id: string,
  { to, text, max_bytes }: { to: string; text: string; max_bytes?: number },
): Promise<void> {
  const message = {
    channel: 'email',
    direction: 'sent',
    status: 'sent',
    keyword: null,
    person: null,
    sender: null,
    reference: `<${newId()}@example.com>`,
    from: 'shop@example.com',
    subject: text.slice(0, 10),
    text,
    html: text,
  } as const
  const vault = createVault(env['ENCRYPTION_KEY']!)
  await sql.begin((tx) =>
    storeInInbox(
      tx,
      vault,
      tenant_id,
      { ...message, to: [to], attachments: [] },
      max_bytes === undefined ? {} : { max_bytes },
    ),
  )
}

test('an inbox keeps the newest messages, by their bytes', async ({ world }) => {
  const { sql, env } = world
  const { tenant_id } = await world.clientOf({ mode: 'test' })
  const max_bytes = 10_000
  for (let nth = 0; nth < 12; nth++)
    await store(world, tenant_id, { to: 'ada@example.com', text: `${nth} `.padEnd(750, 'x'), max_bytes })
  const vault = createVault(env['ENCRYPTION_KEY']!)
  const kept = await findInInbox(sql, vault, tenant_id, { limit: 100 })
  const [sum] = await sql<{ bytes: number }[]>`
    select sum(octet_length(content))::integer as bytes from sandbox_messages where tenant_id = ${tenant_id}`
  expect(sum!.bytes).toBeLessThanOrEqual(max_bytes)
  expect(kept.map(({ text }) => Number.parseInt(text!, 10))).toEqual([11, 10, 9, 8])
})

test('an email of any characters fits, and control characters are replaced', async ({ world }) => {
  const { tenant_id } = await world.clientOf({ mode: 'test' })
  for (const text of ['\u0001', '"', '\n', '\u4E2D', '\uD83D\uDE00']) {
    await store(world, tenant_id, { to: 'ada@example.com', text: text.repeat(120_000) })
    const vault = createVault(world.env['ENCRYPTION_KEY']!)
    const [newest] = await findInInbox(world.sql, vault, tenant_id, { limit: 1 })
    expect(newest!.html).toBe(newest!.text)
    const shown = text === '\u0001' ? '\uFFFD' : text
    expect(newest!.text).toBe(shown.repeat(100_000 / text.length))
  }
})

test('a search for a recipient opens the newest messages only', async ({ world }) => {
  const { sql, env } = world
  const { tenant_id } = await world.clientOf({ mode: 'test' })
  await store(world, tenant_id, { to: 'first@example.com', text: 'first' })
  for (let nth = 0; nth < 200; nth++)
    await store(world, tenant_id, { to: 'many@example.com', text: `${nth}` })
  await store(world, tenant_id, { to: 'last@example.com', text: 'last' })
  const vault = createVault(env['ENCRYPTION_KEY']!)
  const search = async (to: string) =>
    (await findInInbox(sql, vault, tenant_id, { limit: 2, to })).map(({ text }) => text)
  expect(await search('last@example.com')).toEqual(['last'])
  expect(await search('many@example.com')).toEqual(['199', '198'])
  expect(await search('first@example.com')).toEqual([])
})
