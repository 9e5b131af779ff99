// Answers with suppressions: opens their sealed addresses.
import type { SuppressionRow } from '#domain/suppressions/find.ts'
import { suppressionPlace, type Suppression } from '#domain/suppressions/suppression.ts'
import type { RouteContext } from '../../context.ts'

/** Shows a suppression with its address. */
export type ShowSuppression = (row: SuppressionRow) => Suppression

export function createShowSuppression({ vault }: RouteContext): ShowSuppression {
  return ({ sealed, ...suppression }) => {
    const { tenant_id, id } = suppression
    return { ...suppression, address: vault.open(sealed, suppressionPlace(tenant_id, id)) }
  }
}
