// The statement audit itself: it must notice, or its silence after the suite says nothing.
import { expect, test } from 'vitest'
import { referencesWithoutTenant } from '#test/statements.ts'

const TABLES = new Set(['payments', 'refunds', 'jobs', 'events', 'customers', 'idempotency_keys'])
const touched = (statement: string) => referencesWithoutTenant(statement, TABLES).map(({ table }) => table)

test.each([
  ['a row by its id alone', 'select id, tenant_id from payments where id = $1', ['payments']],
  ['a tenant that is only shown', 'select tenant_id from refunds where payment_id = $1', ['refunds']],
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
  ['an insert that leaves it out', 'insert into events (id, type) select id, $1 from p', ['events']],
  [
    'a CTE whose neighbour names it',
    'with a as (select id from payments where id = $1), b as (select id from refunds where tenant_id = $2) select from a, b',
    ['payments'],
  ],
  [
    'a sub-query that names it for itself',
    'select from payments where id in (select payment_id from refunds where tenant_id = $1)',
    ['payments'],
  ],
  [
    'one branch of a union',
    'select id from payments where tenant_id = $1 union all select id from refunds where payment_id = $2',
    ['refunds'],
  ],
  ['a deletion by age', 'delete from events where created_at < $1', ['events']],
  ['a table after a comma', 'select from payments p, refunds r where p.tenant_id = $1', ['refunds']],
  [
    'a name in quotes, in capitals, after a comment',
    'SELECT 1 FROM /* all */ "payments" WHERE id = $1',
    ['payments'],
  ],
])('it notices %s', (_what, statement, expected) => {
  expect(touched(statement)).toEqual(expected)
})

test.each([
  ['a row by tenant and id', 'select * from payments where tenant_id = $1 and id = $2'],
  ['a join by both', 'select from asked a join payments p on p.tenant_id = a.tenant_id and p.id = a.id'],
  ['an insert that writes it', 'insert into events (tenant_id, id) select tenant_id, id from p'],
  [
    'a lateral look-up',
    'select from asked a cross join lateral (select from payments p where p.tenant_id = a.tenant_id and p.id = a.id for update) p',
  ],
  ['what is no table of a tenant', 'select slug from tenants where id = $1'],
  ['a column called like a table', 'select j.events from json j where j.id = $1'],
  ['columns called so, of an insert and of a select', 'insert into x (id, events) select id, events from y'],
  ['what is allowed by name', 'select id, state, last_error from jobs where id = any($1::uuid[])'],
])('it lets pass %s', (_what, statement) => {
  expect(touched(statement)).toEqual([])
})
