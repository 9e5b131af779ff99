// The names of tenants for operators: the slug, and `<slug>/test` for the twin of that tenant.
import type { Fragment, Sql, Tx } from '#core/db.ts'
import type { Mode } from './modes.ts'

/** What follows the slug in the name of a twin. A slug has no slash. */
const TWIN_SUFFIX = '/test'

export function tenantName({ slug, mode }: { slug: string; mode: Mode }): string {
  return mode === 'test' ? `${slug}${TWIN_SUFFIX}` : slug
}

/** The slug and the mode in a name. */
export function parseTenantName(name: string): { slug: string; mode: Mode } {
  if (!name.endsWith(TWIN_SUFFIX)) return { slug: name, mode: 'live' }
  return { slug: name.slice(0, -TWIN_SUFFIX.length), mode: 'test' }
}

/** The name of the row `t` of `tenants`. Null if there is no row. */
export function tenantNameColumn(sql: Sql | Tx): Fragment {
  return sql`t.slug || case t.mode when 'test' then ${TWIN_SUFFIX} else '' end`
}
