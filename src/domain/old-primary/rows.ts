// Reads what the old primary has since a time, in bounded batches. It is only read.
import { unionAll, type Fragment, type Sql } from '#core/db.ts'
import { LOWEST_ID } from '#core/ids.ts'
import { PROVIDER_RESOURCE_NAMES, RESOURCE_NAMES, resourceOf, type ResourceName } from '../resources.ts'

/** A row of the old primary. `id`: of a request its key; of an entry of the audit log its number. */
export type OldRow = {
  tenant_id: string | null
  id: string
  at: string
  /** What people know it by: the route of a request, the action of an entry, the name of a tenant. */
  what: string | null
  /** The idempotency key of its request. */
  key: string | null
  /** The resource that the row is, or that its request created or changed, and its object at the provider. */
  resource: string | null
  resource_id: string | null
  provider: string | null
  reference: string | null
}

/**
 * An accepted request, by its stored key. `is_created`: whether it created the resource. `job_id`: null if its job is
 * that of an earlier request, which proves nothing about this one; a job of its own has the same time as its key.
 */
export type OldRequest = OldRow & {
  tenant_id: string
  key: string
  what: string
  resource_id: string
  job_id: string | null
  is_created: boolean
}

/** Rows that follow from others, and are neither requested nor at a provider. */
const DERIVED: readonly ResourceName[] = ['webhook_delivery', 'feed', 'request']
export const COMPARED_RESOURCES = RESOURCE_NAMES.filter((name) => !DERIVED.includes(name))

const BATCH_SIZE = 1_000

/** The rows of a resource that were created since then. */
export async function* readResources(
  old: Sql,
  resource: ResourceName,
  since: string,
): AsyncGenerator<OldRow[]> {
  const { table } = resourceOf(resource)
  for await (const tenant_id of readActiveTenants(old, table, since)) {
    let after: { at: string; id: string } | undefined = { at: since, id: LOWEST_ID }
    while (after !== undefined) {
      const rows: OldRow[] = await old<OldRow[]>`
        select found.* from ${withoutKey(old)} cross join lateral (
          select r.tenant_id, r.id, r.created_at as at, null as what, idempotency_key as key,
            ${resource}::text as resource, r.id as resource_id, ${atProvider(old, resource)}
          from ${old(table)} r where r.tenant_id = ${tenant_id} and (r.created_at, r.id) > (${after.at}, ${after.id})
          order by r.created_at, r.id limit ${BATCH_SIZE}) found
        order by found.at, found.id`
      yield rows
      after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)
    }
  }
}

/** In a select from a table without the column `idempotency_key`, that name is the column of this outer row. */
function withoutKey(old: Sql): Fragment {
  return old`(select null::text as idempotency_key) without_key`
}

/** The columns `provider` and `reference` of the rows `r`. */
function atProvider(old: Sql, resource: ResourceName): Fragment {
  const { at_provider } = resourceOf(resource)
  if (at_provider === undefined) return old`null::text as provider, null::text as reference`
  const { provider, reference } = at_provider
  return old`r.${old(provider)}::text as provider, r.${old(reference)}::text as reference`
}

/** The tenants with a row in the table since then. */
async function* readActiveTenants(old: Sql, table: string, since: string): AsyncGenerator<string> {
  for (let after: string | undefined = LOWEST_ID; after !== undefined;) {
    const tenants: { id: string; is_active: boolean }[] = await old<{ id: string; is_active: boolean }[]>`
      select t.id, exists (
        select from ${old(table)} r where r.tenant_id = t.id and r.created_at >= ${since} offset 0) as is_active
      from tenants t where t.id > ${after} order by t.id limit ${BATCH_SIZE}`
    for (const { id, is_active } of tenants) if (is_active) yield id
    after = tenants.length < BATCH_SIZE ? undefined : tenants.at(-1)!.id
  }
}

/** The requests with a key that were accepted since then. */
export async function* readRequests(old: Sql, since: string): AsyncGenerator<OldRequest[]> {
  const resources = RESOURCE_NAMES.map((resource) => {
    return old`
      select idempotency_key = k.key as is_created, ${atProvider(old, resource)}
      from ${old(resourceOf(resource).table)} r
      where k.resource = ${resource} and r.tenant_id = k.tenant_id and r.id = k.resource_id`
  })
  type After = Pick<OldRequest, 'at' | 'tenant_id' | 'key' | 'what'>
  for (
    let after: After | undefined = { at: since, tenant_id: LOWEST_ID, key: '', what: '' };
    after !== undefined;
  ) {
    const rows: OldRequest[] = await old<OldRequest[]>`
      select k.tenant_id, k.key as id, k.created_at as at, k.scope as what, k.key, k.resource, k.resource_id,
        (select j.id from all_jobs j
        where j.tenant_id = k.tenant_id and j.id = k.job_id and j.created_at = k.created_at) as job_id,
        coalesce(made.is_created, false) as is_created, made.provider, made.reference
      from ${withoutKey(old)} cross join (
        select * from idempotency_keys
        where created_at >= ${after.at}
          and (created_at, tenant_id, key, scope) > (${after.at}, ${after.tenant_id}, ${after.key}, ${after.what})
        order by created_at, tenant_id, key, scope limit ${BATCH_SIZE}
      ) k left join lateral (${unionAll(old, resources)}) made on true
      order by k.created_at, k.tenant_id, k.key, k.scope`
    yield rows
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)
  }
}

/** The entries of the audit log since then. `reference`: the hash, by which two entries with one number differ. */
export async function* readAuditEntries(old: Sql, since: string): AsyncGenerator<OldRow[]> {
  const [first] = await old<
    { seq: number | null }[]
  >`select min(seq) as seq from audit_entries where at >= ${since}`
  if (first?.seq == null) return
  for (let after: number | undefined = first.seq - 1; after !== undefined;) {
    const rows: OldRow[] = await old<OldRow[]>`
      select tenant_id, seq::text as id, at, concat_ws(' ', action, subject, subject_id, 'by', actor) as what,
        null as key, null as resource, null as resource_id, null as provider, encode(hash, 'hex') as reference
      from audit_entries where seq > ${after} order by seq limit ${BATCH_SIZE}`
    yield rows
    after = rows.length < BATCH_SIZE ? undefined : Number(rows.at(-1)!.id)
  }
}

/** What people create or revoke, by the name of its kind. */
const PEOPLE = {
  tenant: { table: 'tenants', tenant_id: 'id', what: 'slug', at: 'created_at' },
  user: { table: 'users', tenant_id: null, what: 'email', at: 'created_at' },
  api_key: { table: 'api_keys', tenant_id: 'tenant_id', what: 'name', at: 'created_at' },
  revoked_api_key: { table: 'api_keys', tenant_id: 'tenant_id', what: 'name', at: 'revoked_at' },
} as const
export type PeopleKind = keyof typeof PEOPLE
export const PEOPLE_KINDS = Object.keys(PEOPLE) as PeopleKind[]

/** The tenants, users and keys that were created, or the keys that were revoked, since then. */
export async function* readPeople(old: Sql, kind: PeopleKind, since: string): AsyncGenerator<OldRow[]> {
  const { table, tenant_id, what, at } = PEOPLE[kind]
  for (
    let after: { at: string; id: string } | undefined = { at: since, id: LOWEST_ID };
    after !== undefined;
  ) {
    const rows: OldRow[] = await old<OldRow[]>`
      select ${tenant_id === null ? old`null::uuid` : old(tenant_id)} as tenant_id, id, ${old(at)} as at,
        ${old(what)} as what, null as key, null as resource, null as resource_id, null as provider, null as reference
      from ${old(table)} where (${old(at)}, id) > (${after.at}, ${after.id}) order by ${old(at)}, id
      limit ${BATCH_SIZE}`
    yield rows
    after = rows.length < BATCH_SIZE ? undefined : rows.at(-1)
  }
}

/** Whether lookups find the object of the row. */
export function isAtProvider<Row extends OldRow>(
  row: Row,
): row is Row & { provider: string; reference: string } {
  return (
    row.reference !== null &&
    row.provider !== null &&
    PROVIDER_RESOURCE_NAMES.some((name) => name === row.resource)
  )
}
