// Answers with suppressions: opens their sealed addresses.
import type { SuppressionRow } from '#domain/suppressions/find.ts'
import { suppressionContext, type Suppression } from '#domain/suppressions/suppression.ts'
import type { RouteContext } from '../../context.ts'

/** Shows a suppression with its address. */
export type SuppressionView = (row: SuppressionRow) => Suppression

export function createSuppressionView({ vault }: RouteContext): SuppressionView {
  return ({ sealed, ...suppression }) => {
    const { tenant_id, id } = suppression
    return { ...suppression, address: vault.open(sealed, suppressionContext(tenant_id, id)) }
  }
}
