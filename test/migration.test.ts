// Migrations run once and in order, and an applied migration must not change.
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import postgres from 'postgres'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { ConfigError } from '#core/config.ts'
import { migrate } from '#core/migrate.ts'
import { postgresUrl } from '#test/suite.ts'

let files: string[]
beforeAll(async () => {
  const names = await readdir(new URL('../migrations/', import.meta.url))
  files = names.filter((name) => /^\d{4}_.+\.sql$/.test(name)).toSorted()
})

/** Creates an empty database and a connection to it. */
async function createEmptyDatabase(): Promise<{ url: string; sql: postgres.Sql }> {
  const server = await postgresUrl()
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const owner = postgres(server, { max: 1, onnotice: () => {} })
  await owner.unsafe(`create database ${name}`)
  const url = Object.assign(new URL(server), { pathname: `/${name}` }).href
  const sql = postgres(url, { max: 1, onnotice: () => {} })
  onTestFinished(async () => {
    await sql.end()
    await owner.unsafe(`drop database ${name} with (force)`)
    await owner.end()
  })
  return { url, sql }
}

test('two concurrent migration processes apply each migration once', async () => {
  const { url, sql } = await createEmptyDatabase()
  const applied = await Promise.all([migrate(url), migrate(url)])
  expect(applied.toSorted((a, b) => b.length - a.length)).toEqual([files, []])
  const recorded = await sql<{ name: string }[]>`select name from schema_migrations order by name`
  expect(recorded.map(({ name }) => name)).toEqual(files)
  expect(await migrate(url)).toEqual([])
})

test('a change of an applied migration is refused, and no migration runs', async () => {
  const { url, sql } = await createEmptyDatabase()
  await migrate(url)
  const [changed, missing] = [files.at(0)!, files.at(-1)!]
  await sql`update schema_migrations set checksum = 'another' where name = ${changed}`
  await sql`delete from schema_migrations where name = ${missing}`
  await expect(migrate(url)).rejects.toThrow(
    new ConfigError(
      `The migration ${changed} was changed after it was applied to this database. Restore the file, and make the change in a new migration.`,
    ),
  )
  expect(await sql`select from schema_migrations where name = ${missing}`).toEqual([])
})
