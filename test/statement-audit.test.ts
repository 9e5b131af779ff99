// Tests the statement audit: it reports references to tables of tenants that are not limited to a tenant.
import { expect, test } from 'vitest'
import { referencesWithoutTenant, selectsUpdatedPartition } from '#test/statements.ts'

const TABLES = new Set(['payments', 'refunds', 'jobs', 'events', 'customers', 'idempotency_keys'])
const findUnscopedTables = (statement: string) =>
  referencesWithoutTenant(statement, TABLES).map(({ table }) => table)

test.each([
  ['a row by its id alone', 'select id, tenant_id from payments where id = $1', ['payments']],
  ['a tenant that is only selected', 'select tenant_id from refunds where payment_id = $1', ['refunds']],
  ['a tenant that is only set', 'update payments set tenant_id = $1 where id = $2', ['payments']],
  [
    'a join by the id alone',
    'select from payments p join refunds r on r.payment_id = p.id where p.tenant_id = $1',
    ['refunds'],
  ],
  [
    "another table's tenant",
    'update payments p set status = $1 from refunds r where r.tenant_id = $2 and p.id = r.payment_id',
    ['payments'],
  ],
  ['an insert without the tenant', 'insert into events (id, type) select id, $1 from p', ['events']],
  [
    'a CTE without the tenant next to a CTE with it',
    'with a as (select id from payments where id = $1), b as (select id from refunds where tenant_id = $2) select from a, b',
    ['payments'],
  ],
  [
    'an outer query without the tenant around a sub-query with it',
    'select from payments where id in (select payment_id from refunds where tenant_id = $1)',
    ['payments'],
  ],
  [
    'a union with one branch without the tenant',
    'select id from payments where tenant_id = $1 union all select id from refunds where payment_id = $2',
    ['refunds'],
  ],
  ['a deletion by age alone', 'delete from events where created_at < $1', ['events']],
  [
    'a second table after a comma without the tenant',
    'select from payments p, refunds r where p.tenant_id = $1',
    ['refunds'],
  ],
  [
    'a name in quotes, in capitals, after a comment',
    'SELECT 1 FROM /* all */ "payments" WHERE id = $1',
    ['payments'],
  ],
])('the statement audit reports %s', (_case, statement, expected) => {
  expect(findUnscopedTables(statement)).toEqual(expected)
})

test.each([
  ['a row by tenant and id', 'select * from payments where tenant_id = $1 and id = $2'],
  [
    'a join by tenant and id',
    'select from asked a join payments p on p.tenant_id = a.tenant_id and p.id = a.id',
  ],
  ['an insert with the tenant', 'insert into events (tenant_id, id) select tenant_id, id from p'],
  [
    'a lateral lookup by tenant and id',
    'select from asked a cross join lateral (select from payments p where p.tenant_id = a.tenant_id and p.id = a.id for update) p',
  ],
  ['a table without tenants', 'select slug from tenants where id = $1'],
  ['a column with the name of a table', 'select j.events from json j where j.id = $1'],
  [
    'columns of an insert and a select with the name of a table',
    'insert into x (id, events) select id, events from y',
  ],
  ['a statement that is allowed explicitly', 'select id, state from jobs where id = any($1::uuid[])'],
])('the statement audit accepts %s', (_case, statement) => {
  expect(findUnscopedTables(statement)).toEqual([])
})

test('an update of deliveries may not compare their creation time', () => {
  const updateWhere = (condition: string) =>
    `with d as (update webhook_deliveries d set step = 0 from due w where ${condition} returning d.created_at)
      select from webhook_due w join d on d.created_at = w.delivery_created_at`
  expect(selectsUpdatedPartition(updateWhere('d.id = w.delivery_id'))).toBe(false)
  expect(selectsUpdatedPartition(updateWhere('d.created_at = w.delivery_created_at'))).toBe(true)
})
